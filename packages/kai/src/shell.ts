import type { Readable, Writable } from "node:stream";

/** Starts processes where effects may happen: in a cell. Kai starts none but through it. */
export interface Shell {
  start(start: Start): Running;
}

export type Start = {
  readonly argv: readonly string[];
  /** An absolute directory. */
  readonly cwd: string;
  /** The whole environment of the process. */
  readonly env: Readonly<Record<string, string>>;
  /** `pipe`: the process is talked to; `none`: it reads an end of file at once. */
  readonly stdin: "pipe" | "none";
  /** Absolute directories that it may write to; all else it can only read. */
  readonly writable: readonly string[];
};

/** A process and its descendants. */
export interface Running {
  readonly stdin: Writable | null;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when the process has ended and its output has come whole; never rejects. */
  readonly ended: Promise<Ended>;
  /** Kills the process and all of its descendants; safe to repeat. */
  kill(): void;
}

export type Ended =
  | { readonly kind: "exit"; readonly code: number }
  | { readonly kind: "signal"; readonly signal: string }
  /** It could not be started at all; `why` says it. */
  | { readonly kind: "spawn"; readonly why: string };
