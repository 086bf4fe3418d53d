import type {
  Call,
  CallOp,
  Change,
  Edit,
  Image,
  Message,
  PlanItem,
  ToolSpec,
  TurnEvent,
  Variable,
} from "@dev/protocol";
import type { AgentKind, Config, Limits } from "./config.ts";
import type { Agent, Phase, Slot, State, Turn, Unheard } from "./state.ts";

/*
 * Whether what was read as JSON has the form of a state. A type whose form lacks a field or a variant
 * does not compile.
 */

type Check = (value: unknown) => boolean;
type Fields<T> = { readonly [Name in keyof Required<T>]: Check };
type Variants<T extends { readonly kind: string }> = {
  readonly [Kind in T["kind"]]: Fields<Omit<Extract<T, { readonly kind: Kind }>, "kind">>;
};

const text: Check = (value) => typeof value === "string";
const flag: Check = (value) => typeof value === "boolean";
/** Half of what a double counts exactly, so that no counter can reach its end. */
const COUNT_LIMIT = 2 ** 52;
const count: Check = (value) => isCount(value) && value < COUNT_LIMIT;
/** A sum that stays at the end of the integers. */
const total: Check = isCount;

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function oneOf(...words: readonly string[]): Check {
  return (value) => words.includes(value as string);
}

function listOf(check: Check): Check {
  return (value) => Array.isArray(value) && value.every((item) => check(item));
}

function nullOr(check: Check): Check {
  return (value) => value === null || check(value);
}

export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function fields<T>(checks: Fields<T>): Check {
  const all: { readonly [name: string]: Check } = checks;
  const names = Object.keys(all);
  return (value) =>
    isObject(value) && names.every((name) => all[name]?.((value as Values)[name]) === true);
}

function variants<T extends { readonly kind: string }>(checks: Variants<T>): Check {
  const kinds = new Map<unknown, Check>();
  for (const [kind, variant] of Object.entries<Fields<object>>(checks)) {
    kinds.set(kind, fields(variant));
  }
  return (value) => isObject(value) && kinds.get((value as Values).kind)?.(value) === true;
}

type Values = { readonly [name: string]: unknown };

const texts = listOf(text);
const change = variants<Change>({
  edits: { edits: listOf(fields<Edit>({ old: text, new: text })) },
  diff: { diff: text },
});
const variable = fields<Variable>({ name: text, value: text });
const plan = listOf(fields<PlanItem>({ text, status: oneOf("pending", "active", "done") }));

const callOp = variants<CallOp>({
  read: { path: text, from: count, to: count },
  search: { pattern: text, path: text, glob: text, match: oneOf("text", "name") },
  write: { path: text, text, expect: text },
  patch: { path: text, change, expect: text },
  exec: {
    argv: texts,
    cwd: text,
    env: listOf(variable),
    stdin: text,
    timeoutMs: count,
    background: flag,
  },
  git: { argv: texts },
  browse: { url: text, method: text, headers: listOf(variable), body: text },
  tool: { server: text, name: text, arguments: text },
  question: { text, choices: texts, many: flag },
  spawn: { prompt: text, agent: text, tools: texts },
  plan: { items: plan },
  invalid: { name: text, reason: text, arguments: text },
});

const images = listOf(fields<Image>({ mediaType: text, data: text }));
const message = variants<Message>({
  user: { text, images },
  assistant: {
    text,
    reasoning: text,
    calls: listOf(fields<Call>({ ref: text, op: callOp })),
    opaque: text,
  },
  tool: { ref: text, text, failed: flag },
});

const family = oneOf("reply", "exec", "file", "git", "browse", "tool");
const slot = variants<Slot>({
  waiting: { ref: text, action: count, family },
  spawned: { ref: text, agent: count },
  answered: { ref: text, text, failed: flag },
});
const phase = variants<Phase>({
  idle: {},
  asking: { action: count },
  compacting: { action: count, cut: count, next: oneOf("ask", "end") },
  acting: { slots: listOf(slot) },
});

const agent = fields<Agent>({
  id: count,
  parent: nullOr(count),
  depth: count,
  kind: text,
  tools: texts,
  messages: listOf(message),
  messageBytes: count,
  told: count,
  phase,
  plan,
  identicalCount: count,
  usedTokens: total,
  summary: oneOf("none", "fresh", "last", "settled"),
});

const turnEvent = fields<TurnEvent>({
  kind: oneOf("turn"),
  id: total,
  prompt: text,
  images,
  mode: oneOf("plan", "ask", "edits", "full"),
});

const limits = fields<Limits>({
  modelCallsPerTurn: total,
  identicalReplies: total,
  callsPerReply: total,
  messageBytes: total,
  resultBytes: total,
  conversationBytes: total,
  tokensPerSession: total,
  costMicroUsdPerSession: total,
  compactPercent: total,
  keptBytes: total,
  agentDepth: total,
  agentCount: total,
  queuedTurns: total,
  steers: total,
});

const tool = fields<ToolSpec>({ name: text, description: text, parameters: text });

const configParts: Fields<Config> = {
  model: text,
  effort: oneOf("default", "low", "medium", "high"),
  prelude: text,
  tools: listOf(tool),
  limits,
  windowTokens: total,
  images: flag,
  agents: listOf(
    fields<AgentKind>({
      name: text,
      description: text,
      prelude: text,
      model: text,
      windowTokens: total,
      tools: nullOr(texts),
    }),
  ),
};

const stateParts: Fields<Omit<State, "config">> = {
  nextAction: count,
  nextAgent: count,
  highestTurn: total,
  turn: nullOr(fields<Turn>({ id: total, modelCallCount: count })),
  queue: listOf(turnEvent),
  steers: texts,
  lastSteer: text,
  tokenCount: total,
  costMicroUsd: total,
  unheard: listOf(fields<Unheard>({ action: count, messageBytes: count })),
  dirty: flag,
  agents: listOf(agent),
};

/** Whether this is a config of any release: what a later one added may be missing. */
export const isStatedConfig: Check = fields<Pick<Config, "tools" | "limits" | "agents">>({
  tools: listOf(tool),
  limits: isObject,
  agents: (value) => value === undefined || listOf(isObject)(value),
});

export const isConfig: Check = fields(configParts);

/** The name of a part that this lacks to be a config, or that is of another type; null for a config. */
export function wrongPart(value: Config): string | null {
  const checks: { readonly [name: string]: Check } = configParts;
  const parts: Values = value;
  return Object.keys(checks).find((name) => checks[name]?.(parts[name]) !== true) ?? null;
}

/** Whether this is a state, but for its config. */
export const isState: Check = fields(stateParts);

/** Whether a snapshot's text has no part that is never written, beside its version. */
export const isSnapshot: Check = (value) => {
  const parts = value as Values;
  const others = Object.keys(parts).filter((name) => !SNAPSHOT_PARTS.includes(name));
  if (others.length > 0 || !isObject(parts.state)) return false;
  return Object.keys(parts.state).every((name) => Object.hasOwn(stateParts, name));
};

const SNAPSHOT_PARTS: readonly string[] = ["version", "config", "state", "agents"];
