import { DEFAULT_LIMITS, type Limits } from "@dev/core";
import type { DoneOp, Mode } from "@dev/protocol";
import type { LayeredRule } from "@dev/session";
import type { Hitch, Line } from "./model.ts";

/** What a person and their models do in a session, and how it ends when nothing goes wrong. */
export type Scenario = {
  readonly name: string;
  readonly prompts: readonly string[];
  readonly mode: Mode;
  /** The session's own model's part is the first. */
  readonly parts: readonly Part[];
  readonly hitches: readonly Hitch[];
  readonly rules: readonly LayeredRule[];
  readonly files: Readonly<Record<string, string>>;
  readonly limits: Limits;
  /** What the core is told of the model's window, in tokens: see `MESSAGE_TOKENS`. */
  readonly windowTokens: number;
  /** What the provider really takes, in messages: past it an ask overflows. */
  readonly windowMessages: number;
  /** The person stops the turn when something comes to a point whose name begins so. */
  readonly stopAt: string | null;
  /** The link breaks, whatever else does, at such a point. */
  readonly cutAt: string | null;
  /** The driver dies, whatever else does, at such a point. */
  readonly dieAt: string | null;
  /** What the person says to the turn at work, at such a point. */
  readonly steers: readonly { readonly at: string; readonly text: string }[];
  /** What the person says to whatever is asked. */
  readonly permits: "once" | "no";
  /** What the trace of an undisturbed run has to show, or the scenario is not what it is for. */
  readonly shows: readonly string[];
  /** How its turns end. */
  readonly ends: readonly DoneOp["outcome"][];
};

/** One conversation's lines. */
export type Part = {
  /** A word; empty for the session's own. */
  readonly name: string;
  /** How the prompt begins of a conversation that this is the part for. */
  readonly cue: string;
  readonly lines: readonly Line[];
};

/** A prompt in which nothing is out of the ordinary. */
export const PLAIN: Omit<Scenario, "name" | "parts"> = {
  prompts: ["do it"],
  mode: "full",
  hitches: [],
  rules: [],
  files: {},
  limits: DEFAULT_LIMITS,
  windowTokens: 0,
  windowMessages: Number.POSITIVE_INFINITY,
  stopAt: null,
  cutAt: null,
  dieAt: null,
  steers: [],
  permits: "once",
  shows: [],
  ends: ["complete"],
};
