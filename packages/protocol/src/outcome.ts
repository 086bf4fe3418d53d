import type { Fault } from "./fault.ts";
import type { Digest } from "./id.ts";

/** How an effect ended. Nothing ever turns `unknown` into `ok` without evidence. */
export type Outcome =
  | { readonly kind: "ok"; readonly result: OpResult }
  /** It ran, or was tried, and did not work. */
  | { readonly kind: "failed"; readonly fault: Fault }
  /** Policy or a person said no: nothing happened. */
  | { readonly kind: "refused"; readonly rule: string; readonly reason: string }
  /** It was dispatched, and no one can say whether it happened; `known` is what can be said. */
  | { readonly kind: "unknown"; readonly known: string }
  /** It was stopped; what it had done by then stays done. */
  | { readonly kind: "cancelled"; readonly known: string };

export type OpResult =
  | ExecResult
  | ReadResult
  | WriteResult
  | SearchResult
  | BrowseResult
  | ToolResult;

/** The answer to `Exec` and `Git`. A command that exits with 1 is `ok`: it ran. */
export type ExecResult = {
  readonly kind: "exec";
  readonly end: ExecEnd;
  /** Head and tail; bytes that are not UTF-8 are replaced by U+FFFD. */
  readonly stdout: string;
  readonly stderr: string;
  /** How many bytes were cut from the middle of each; `outputPath` has them. */
  readonly stdoutCutBytes: number;
  readonly stderrCutBytes: number;
  readonly durationMs: number;
  /** Where in the cell the whole output lies, for a command to read; empty when nothing was cut. */
  readonly outputPath: string;
};

export type ExecEnd =
  | { readonly kind: "exit"; readonly code: number }
  | { readonly kind: "signal"; readonly signal: string }
  /** It reached its deadline and was killed with its process group. */
  | { readonly kind: "timeout"; readonly afterMs: number }
  /** It runs on under this name, for as long as the cell lives. */
  | { readonly kind: "background"; readonly name: string };

export type ReadResult = {
  readonly kind: "read";
  /** The lines asked for. */
  readonly text: string;
  /** Whether bytes that are not UTF-8 were replaced by U+FFFD. */
  readonly lossy: boolean;
  /** Of the whole file. */
  readonly sizeBytes: number;
  readonly lineCount: number;
  readonly digest: Digest;
  /** Whether `text` stops before the last line that was asked for. */
  readonly cut: boolean;
};

/** The answer to `Write` and `Patch`. */
export type WriteResult = {
  readonly kind: "write";
  readonly before: "absent" | Digest;
  readonly after: Digest;
  readonly sizeBytes: number;
  readonly addedLines: number;
  readonly removedLines: number;
};

export type SearchResult = {
  readonly kind: "search";
  readonly matches: readonly Match[];
  /** Whether there were more than the limit. */
  readonly cut: boolean;
};

/** `line` counts from 1 and is 0 when the name matched. */
export type Match = { readonly path: string; readonly line: number; readonly text: string };

export type BrowseResult = {
  readonly kind: "browse";
  readonly status: number;
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  readonly body: string;
  readonly cutBytes: number;
};

export type ToolResult = {
  readonly kind: "tool";
  readonly text: string;
  /** Whether the tool itself reported an error. */
  readonly failed: boolean;
};
