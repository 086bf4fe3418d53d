import { type EffectOp, OWN_SERVER } from "@dev/protocol";
import * as v from "valibot";
import { argv } from "./command.ts";
import { defineTool, type Tool, unless } from "./tool.ts";

/** What a model asks of `fix`. */
export type FixCall = {
  readonly argv: readonly string[];
  /** Below the workspace; `.` is the workspace itself. */
  readonly cwd: string;
  readonly timeoutSeconds: number;
  /** How many answers of a model may be tried; 0: none is asked. */
  readonly modelCalls: number;
};

const NAME = "fix";
const LIMITS = { usualSeconds: 60, seconds: 600, modelCalls: 6 } as const;

const whole = (most: number, least: number, what: string) =>
  v.pipe(
    v.number(),
    v.integer("expected a whole number"),
    v.minValue(least, `expected ${least} or more`),
    v.maxValue(most, `expected at most ${most}`),
    v.description(what),
  );

const schema = v.strictObject({
  argv: argv(
    'The test command that fails, as words; no shell reads it. The narrower the faster, such as ["node", "--test", "test/total.test.js"].',
  ),
  cwd: v.optional(v.pipe(v.string(), v.description("Relative to the workspace.")), "."),
  timeoutSeconds: v.optional(
    whole(LIMITS.seconds, 1, "How long it may look for a fix."),
    LIMITS.usualSeconds,
  ),
  modelCalls: v.optional(
    whole(LIMITS.modelCalls, 0, "How many answers of a model it may try besides; 0 asks none."),
    0,
  ),
});

/** An operation of Dev's own: it runs beside the cell, on the session's workspace. */
export const FIX: Tool = defineTool<typeof NAME, typeof schema>({
  name: NAME,
  description:
    "Brings a failing test command to pass by small changes to the code, each tried in a copy: comparisons turned, constants off by one, wrong names, missing guards and the like. Try it first where a test fails by a small fault. It writes a change only where the whole command, run from nothing with the change in it, passes; then it answers with the diff. Otherwise it changes nothing and says so, with the candidates where several pass and do different things. Needs no network, and has none.",
  schema,
  toOp: (input) => ({
    kind: "tool",
    server: OWN_SERVER,
    name: NAME,
    arguments: JSON.stringify(written(input)),
  }),
  toArguments: (op) => written(v.parse(schema, JSON.parse(op.arguments))),
});

/** What an op asks of `fix`; null for any other op, and for one that cannot be read. */
export function fixCall(op: EffectOp): FixCall | null {
  if (op.kind !== "tool" || op.server !== OWN_SERVER || op.name !== NAME) return null;
  try {
    const read = v.safeParse(schema, JSON.parse(op.arguments));
    return read.success ? read.output : null;
  } catch {
    return null;
  }
}

function written({ argv, cwd, timeoutSeconds, modelCalls }: FixCall): v.InferInput<typeof schema> {
  return {
    argv: [...argv],
    cwd: unless(cwd, "."),
    timeoutSeconds: unless(timeoutSeconds, LIMITS.usualSeconds),
    modelCalls: unless(modelCalls, 0),
  };
}
