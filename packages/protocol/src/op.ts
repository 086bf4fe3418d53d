import type { Digest, TurnId } from "./id.ts";
import type { Message } from "./message.ts";

/** What an action asks for. It carries all that is needed to perform it. */
export type Op = ModelOp | EffectOp | QuestionOp | EmitOp | SaveOp | DoneOp;

/** An op that something outside the core performs on the world, and that a model may call. */
export type EffectOp = ReadOp | SearchOp | WriteOp | PatchOp | ExecOp | GitOp | BrowseOp | ToolOp;

/**
 * Asks a model. The ask is a delta: `messages` take the place of all that the host has been told from
 * index `from` on. `prelude` and `tools` are given when `from` is 0, and are as before otherwise.
 * Purpose `compact`: the answer's text is to stand for the messages that are asked about.
 */
export type ModelOp = {
  readonly kind: "model";
  readonly purpose: "turn" | "compact" | "title";
  /** `provider/model`. */
  readonly model: string;
  readonly effort: "default" | "low" | "medium" | "high";
  readonly from: number;
  readonly prelude: string;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
};

/** A tool as the model is told of it; `parameters` is a JSON Schema, as text. */
export type ToolSpec = {
  readonly name: string;
  readonly description: string;
  readonly parameters: string;
};

/** Reads lines `from` to `to`, counted from 1, both included; 0 is the file's own start or end. */
export type ReadOp = {
  readonly kind: "read";
  readonly path: string;
  readonly from: number;
  readonly to: number;
};

/** Looks for `pattern` (a regular expression) in files' text or in their names, below `path`. */
export type SearchOp = {
  readonly kind: "search";
  readonly pattern: string;
  readonly path: string;
  /** Which files; empty is all. */
  readonly glob: string;
  readonly match: "text" | "name";
};

/** Writes a whole file, making the directories above it. */
export type WriteOp = {
  readonly kind: "write";
  readonly path: string;
  readonly text: string;
  readonly expect: Expect;
};

/** Changes part of a file; it applies whole or not at all. */
export type PatchOp = {
  readonly kind: "patch";
  readonly path: string;
  readonly change: Change;
  readonly expect: Expect;
};

export type Change =
  | { readonly kind: "edits"; readonly edits: readonly Edit[] }
  | { readonly kind: "diff"; readonly diff: string };

/** `old` must stand in the file exactly once. */
export type Edit = { readonly old: string; readonly new: string };

/** What a file must be before it is written: anything, nothing, or the bytes of this digest. */
export type Expect = "any" | "absent" | Digest;

/** Runs a program; no shell is involved unless `argv` names one. */
export type ExecOp = {
  readonly kind: "exec";
  readonly argv: readonly string[];
  /** Below the workspace; `.` is the workspace itself. */
  readonly cwd: string;
  readonly env: readonly Variable[];
  /** Empty: the program's stdin is closed. */
  readonly stdin: string;
  /** 0: the cell's own default. */
  readonly timeoutMs: number;
  /** Answer at once, and let it run for as long as the cell lives. */
  readonly background: boolean;
};

export type Variable = { readonly name: string; readonly value: string };

/** Runs git in the workspace: `argv` without the leading `git`. */
export type GitOp = { readonly kind: "git"; readonly argv: readonly string[] };

export type BrowseOp = {
  readonly kind: "browse";
  readonly url: string;
  readonly method: string;
  readonly headers: readonly Variable[];
  readonly body: string;
};

/** The server of a `tool` op that Dev performs itself, beside the cell. */
export const OWN_SERVER = "dev";

/** Calls an MCP server's tool, or one of Dev's own; `arguments` is JSON text. */
export type ToolOp = {
  readonly kind: "tool";
  readonly server: string;
  readonly name: string;
  readonly arguments: string;
};

export type QuestionOp = {
  readonly kind: "question";
  readonly text: string;
  readonly choices: readonly string[];
  /** Whether more than one choice may be taken. */
  readonly many: boolean;
};

/** Text for whoever watches the session. */
export type EmitOp = { readonly kind: "emit"; readonly text: string };

/** The session's three facts are to be written down. */
export type SaveOp = { readonly kind: "save" };

export type DoneOp = {
  readonly kind: "done";
  readonly turn: TurnId;
  readonly outcome: "complete" | "cancelled" | "failed" | "limit";
  /** Why, for every outcome but `complete`. */
  readonly reason: string;
};

/** What a model may call: an effect, a question, or what the core handles itself. */
export type CallOp = EffectOp | QuestionOp | SpawnOp | PlanOp | InvalidOp;

export type SpawnOp = {
  readonly kind: "spawn";
  readonly prompt: string;
  /** The kind of sub-agent. */
  readonly agent: string;
  readonly tools: readonly string[];
};

export type PlanOp = { readonly kind: "plan"; readonly items: readonly PlanItem[] };

export type PlanItem = {
  readonly text: string;
  readonly status: "pending" | "active" | "done";
};

/** A call that the host could not read; the core answers it as failed, in place. */
export type InvalidOp = {
  readonly kind: "invalid";
  readonly name: string;
  readonly reason: string;
  /** What the model wrote, as it wrote it. */
  readonly arguments: string;
};
