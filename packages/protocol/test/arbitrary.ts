import fc from "fast-check";
import {
  type Action,
  type ActionId,
  type AgentId,
  type Call,
  type CallOp,
  type Change,
  type Digest,
  type EffectEvent,
  type EffectOp,
  type Event,
  type ExecEnd,
  FAULT_CODES,
  type Fault,
  type Image,
  type Message,
  MODES,
  type ModelAnswer,
  type ModelOp,
  type Op,
  type OpResult,
  type Outcome,
  type QuestionOp,
  type TurnId,
  type Usage,
  type Variable,
} from "../src/index.ts";

/** Any valid value of every type of the protocol; each variant, so that a new one must be added here. */
type Every<T extends { readonly kind: string }> = {
  readonly [Kind in T["kind"]]: fc.Arbitrary<OfKind<T, Kind>>;
};
type OfKind<T, Kind> = T extends { readonly kind: infer Kinds }
  ? Kind extends Kinds
    ? T
    : never
  : never;

const text: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.string({ maxLength: 40 }),
  fc.constantFrom("", "\u0000", "\ufeffmarked", "naïve ✓ 🜁", "é".repeat(300), "x".repeat(5000)),
);
const texts = fc.array(text, { maxLength: 4 });
const count = fc.maxSafeNat();
const digest = fc
  .string({ unit: fc.constantFrom(..."0123456789abcdef"), minLength: 64, maxLength: 64 })
  .map((hex) => hex as Digest);
const actionIds = count.map((value) => value as ActionId);
const turnIds = count.map((value) => value as TurnId);
const agentIds = count.map((value) => value as AgentId);
const expect = fc.oneof(fc.constantFrom("any" as const, "absent" as const), digest);

export const fault: fc.Arbitrary<Fault> = record({
  code: fc.constantFrom(...FAULT_CODES),
  message: text,
  subject: text,
  mend: text,
});
export const usage: fc.Arbitrary<Usage> = record({
  inputTokens: count,
  cachedTokens: count,
  outputTokens: count,
  reasoningTokens: count,
});
const images: fc.Arbitrary<readonly Image[]> = fc.array(
  record({ mediaType: text, data: fc.base64String() }),
  { maxLength: 2 },
);
const variables: fc.Arbitrary<readonly Variable[]> = fc.array(record({ name: text, value: text }), {
  maxLength: 3,
});
const change: fc.Arbitrary<Change> = one<Change>({
  edits: record({
    kind: fc.constant("edits"),
    edits: fc.array(record({ old: text, new: text }), { maxLength: 3 }),
  }),
  diff: record({ kind: fc.constant("diff"), diff: text }),
});

const effects: Every<EffectOp> = {
  read: record({ kind: fc.constant("read"), path: text, from: count, to: count }),
  search: record({
    kind: fc.constant("search"),
    pattern: text,
    path: text,
    glob: text,
    match: fc.constantFrom("text", "name"),
  }),
  write: record({ kind: fc.constant("write"), path: text, text, expect }),
  patch: record({ kind: fc.constant("patch"), path: text, change, expect }),
  exec: record({
    kind: fc.constant("exec"),
    argv: texts,
    cwd: text,
    env: variables,
    stdin: text,
    timeoutMs: count,
    background: fc.boolean(),
  }),
  git: record({ kind: fc.constant("git"), argv: texts }),
  browse: record({
    kind: fc.constant("browse"),
    url: text,
    method: text,
    headers: variables,
    body: text,
  }),
  tool: record({ kind: fc.constant("tool"), server: text, name: text, arguments: text }),
};
const questions: Every<QuestionOp> = {
  question: record({
    kind: fc.constant("question"),
    text,
    choices: texts,
    many: fc.boolean(),
  }),
};

const callOps: Every<CallOp> = {
  ...effects,
  ...questions,
  spawn: record({ kind: fc.constant("spawn"), prompt: text, agent: text, tools: texts }),
  plan: record({
    kind: fc.constant("plan"),
    items: fc.array(record({ text, status: fc.constantFrom("pending", "active", "done") }), {
      maxLength: 3,
    }),
  }),
  invalid: record({ kind: fc.constant("invalid"), name: text, reason: text, arguments: text }),
};
const calls: fc.Arbitrary<readonly Call[]> = fc.array(
  record({ ref: text, op: one<CallOp>(callOps) }),
  { maxLength: 3 },
);

export const message: fc.Arbitrary<Message> = one<Message>({
  user: record({ kind: fc.constant("user"), text, images }),
  assistant: record({ kind: fc.constant("assistant"), text, reasoning: text, calls, opaque: text }),
  tool: record({ kind: fc.constant("tool"), ref: text, text, failed: fc.boolean() }),
});

const modelOp: fc.Arbitrary<ModelOp> = record({
  kind: fc.constant("model"),
  purpose: fc.constantFrom("turn", "compact", "title"),
  model: text,
  effort: fc.constantFrom("default", "low", "medium", "high"),
  from: count,
  prelude: text,
  messages: fc.array(message, { maxLength: 3 }),
  tools: fc.array(record({ name: text, description: text, parameters: text }), {
    maxLength: 2,
  }),
});

export const ops: Every<Op> = {
  ...effects,
  ...questions,
  model: modelOp,
  emit: record({ kind: fc.constant("emit"), text }),
  save: record({ kind: fc.constant("save") }),
  done: record({
    kind: fc.constant("done"),
    turn: turnIds,
    outcome: fc.constantFrom("complete", "cancelled", "failed", "limit"),
    reason: text,
  }),
};

export const action: fc.Arbitrary<Action> = record({
  id: actionIds,
  agent: agentIds,
  turn: turnIds,
  op: one<Op>(ops),
});

const execEnd: fc.Arbitrary<ExecEnd> = one<ExecEnd>({
  exit: record({ kind: fc.constant("exit"), code: fc.integer() }),
  signal: record({ kind: fc.constant("signal"), signal: text }),
  timeout: record({ kind: fc.constant("timeout"), afterMs: count }),
  background: record({ kind: fc.constant("background"), name: text }),
});

const opResult: fc.Arbitrary<OpResult> = one<OpResult>({
  exec: record({
    kind: fc.constant("exec"),
    end: execEnd,
    stdout: text,
    stderr: text,
    stdoutCutBytes: count,
    stderrCutBytes: count,
    durationMs: count,
    outputPath: text,
  }),
  read: record({
    kind: fc.constant("read"),
    text,
    lossy: fc.boolean(),
    sizeBytes: count,
    lineCount: count,
    digest,
    cut: fc.boolean(),
  }),
  write: record({
    kind: fc.constant("write"),
    before: fc.oneof(fc.constant("absent" as const), digest),
    after: digest,
    sizeBytes: count,
    addedLines: count,
    removedLines: count,
  }),
  search: record({
    kind: fc.constant("search"),
    matches: fc.array(record({ path: text, line: count, text }), { maxLength: 4 }),
    cut: fc.boolean(),
  }),
  browse: record({
    kind: fc.constant("browse"),
    status: fc.nat({ max: 999 }),
    headers: variables,
    body: text,
    cutBytes: count,
  }),
  tool: record({ kind: fc.constant("tool"), text, failed: fc.boolean() }),
});

export const outcome: fc.Arbitrary<Outcome> = one<Outcome>({
  ok: record({ kind: fc.constant("ok"), result: opResult }),
  failed: record({ kind: fc.constant("failed"), fault }),
  refused: record({ kind: fc.constant("refused"), rule: text, reason: text }),
  unknown: record({ kind: fc.constant("unknown"), known: text }),
  cancelled: record({ kind: fc.constant("cancelled"), known: text }),
});

const answer: fc.Arbitrary<ModelAnswer> = one<ModelAnswer>({
  reply: record({
    kind: fc.constant("reply"),
    text,
    reasoning: text,
    calls,
    stop: fc.constantFrom("end", "calls", "length", "refusal"),
    opaque: text,
  }),
  failed: record({ kind: fc.constant("failed"), fault, partial: text }),
  cancelled: record({ kind: fc.constant("cancelled"), partial: text }),
});

export const events: Every<Event> = {
  turn: record({
    kind: fc.constant("turn"),
    id: turnIds,
    prompt: text,
    images,
    mode: fc.constantFrom(...MODES),
  }),
  model: record({ kind: fc.constant("model"), id: actionIds, answer, usage, costMicroUsd: count }),
  exec: effect("exec"),
  file: effect("file"),
  git: effect("git"),
  browse: effect("browse"),
  tool: effect("tool"),
  reply: record({ kind: fc.constant("reply"), id: actionIds, text, choices: texts }),
  timer: record({ kind: fc.constant("timer") }),
  steer: record({ kind: fc.constant("steer"), text }),
  cancel: record({ kind: fc.constant("cancel"), turn: turnIds }),
};

export const event: fc.Arbitrary<Event> = one<Event>(events);

function effect(kind: EffectEvent["kind"]): fc.Arbitrary<EffectEvent> {
  return record({ kind: fc.constant(kind), id: actionIds, outcome });
}

function one<T extends { readonly kind: string }>(every: Every<T>): fc.Arbitrary<T> {
  return fc.oneof(...Object.values<fc.Arbitrary<T>>(every));
}

/** Objects as a literal makes them, with the prototype that a reader gives them too. */
function record<T>(fields: { [Name in keyof T]: fc.Arbitrary<T[Name]> }): fc.Arbitrary<T> {
  return fc.record(fields, { noNullPrototype: true }) as fc.Arbitrary<T>;
}
