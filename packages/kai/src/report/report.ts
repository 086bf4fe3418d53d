/** A test command as it was given: no shell is involved unless `argv` names one. */
export type Command = {
  readonly argv: readonly string[];
  /** Relative to the workspace; `.` is the workspace itself. */
  readonly cwd: string;
};

/** What a command has written, and how it ended. */
export type Output = {
  readonly stdout: string;
  readonly stderr: string;
  readonly end:
    | { readonly kind: "exit"; readonly code: number }
    | { readonly kind: "signal"; readonly signal: string }
    | { readonly kind: "timeout" };
};

export type Runner =
  | "pytest"
  | "unittest"
  | "node-test"
  | "vitest"
  | "jest"
  | "mocha"
  | "go"
  | "cargo"
  | "junit"
  | "tap"
  | "unknown";

/** What a test command's output says of the tests it ran. */
export type Report = {
  readonly runner: Runner;
  readonly failures: readonly Failure[];
  /** Tests that passed and that failed; null where the runner does not say. */
  readonly passedCount: number | null;
  readonly failedCount: number | null;
};

export type Failure = {
  /** As the runner names it; empty where it names none. */
  readonly test: string;
  /** The file of the test, relative to the workspace; null where it is not known. */
  readonly file: string | null;
  /** `load`: the file could not even be read or compiled. */
  readonly kind: "assertion" | "error" | "load";
  /** What the runner says of it, clipped. */
  readonly message: string;
  /** The innermost first, those in the workspace alone. */
  readonly frames: readonly Frame[];
};

export type Frame = {
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
  /** Empty where it is not known. */
  readonly function: string;
};
