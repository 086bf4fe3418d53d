import type { Model } from "../catalog.ts";
import type { Ask, Format } from "../router.ts";
import { openReply } from "./anthropic-reply.ts";
import { type Turn, turnsOf } from "./anthropic-turns.ts";
import { wellFormed } from "./text.ts";
import type { Wire } from "./wire.ts";

/**
 * The Messages API, as Anthropic defined it. Its cache goes by markers, which are not part of what is
 * cached: they stand after the tools, after the prelude, and, by a field of the whole request, after the
 * last block. Where so many blocks are new that the provider would not find the last request's end, that
 * end is marked as well. A body begins as the one before, markers aside, unless thinking is turned on or
 * off or is left out: then the provider's cache of the messages is of no use either.
 */
export const ANTHROPIC: Wire = {
  path: "/messages",
  headers: (key) => ({
    "content-type": "application/json",
    accept: "text/event-stream, application/json",
    "accept-encoding": "identity",
    "anthropic-version": "2023-06-01",
    ...(key ? { "x-api-key": key } : {}),
  }),
  body,
  open: openReply,
};

/** The API wants an answer's end to be named. Thinking counts, and longer answers are seldom good ones. */
const ANSWER_TOKENS = 64_000;
/** Of a model that is not known: the most that every model takes which is still served. */
const UNKNOWN_ANSWER_TOKENS = 32_000;

/**
 * What a model may think, in tokens, if it is told by a number. Each step doubles the one before, as less
 * is hardly heard; the last leaves half of an unknown model's answer for what it says.
 */
const BUDGET_TOKENS = { low: 4_000, medium: 8_000, high: 16_000 } as const;
/** The API takes no smaller budget. */
const BUDGET_FLOOR_TOKENS = 1_024;

/** The provider looks for what it has cached in the 20 blocks before a marker; the rest is for safety. */
const LOOKBACK_BLOCKS = 16;

const MARK = { cache_control: { type: "ephemeral" } } as const;

/** The messages come last, as they are what grows. */
function body(ask: Ask, model: string, known: Model): string {
  const { turns } = turnsOf(ask);
  const answerTokens = Math.min(ANSWER_TOKENS, known.outputTokens || UNKNOWN_ANSWER_TOKENS);
  const head = JSON.stringify({
    model,
    max_tokens: answerTokens,
    stream: true,
    ...thinkingOf(ask.effort, known, answerTokens, turns),
    ...outputOf(ask, known),
    ...MARK,
    ...(ask.tools.length === 0 ? {} : { tools: ask.tools.map(toolOf) }),
    ...(ask.prelude.trim() === "" ? {} : { system: [systemOf(ask.prelude)] }),
  });
  const toMark = turnToMark(turns);
  const messages = turns.map(({ role, blocks }, index) => {
    const content = index === toMark ? marked(blocks) : blocks;
    return `{"role":"${role}","content":[${content.join()}]}`;
  });
  return `${head.slice(0, -1)},"messages":[${messages.join()}]}`;
}

function toolOf(
  { name, description, parameters }: Ask["tools"][number],
  index: number,
  all: Ask["tools"],
): object {
  const schema: unknown = JSON.parse(parameters);
  const mark = index === all.length - 1 ? MARK : {};
  return { name, description, input_schema: schema, ...mark };
}

function systemOf(prelude: string): object {
  return { type: "text", text: wellFormed(prelude), ...MARK };
}

/** How the API is told how hard to think. By default it is told nothing: then the model decides. */
function thinkingOf(
  effort: Ask["effort"],
  known: Model,
  answerTokens: number,
  turns: readonly Turn[],
): object {
  if (effort === "default" || known.reasoning === "none") return {};
  if (known.reasoning === "level") {
    // Without `display`, the newer models keep what they think to themselves.
    return { thinking: { type: "adaptive", display: "summarized" } };
  }
  const budget = Math.min(BUDGET_TOKENS[effort], Math.floor(answerTokens / 2));
  if (budget < BUDGET_FLOOR_TOKENS || !mayThink(turns)) return {};
  return { thinking: { type: "enabled", budget_tokens: budget } };
}

/** What the answer is to be like. */
function outputOf({ effort, format }: Ask, known: Model): object {
  const isLevel = effort !== "default" && known.reasoning === "level";
  const config = {
    ...(isLevel ? { effort } : {}),
    ...(format === undefined ? {} : { format: formatOf(format) }),
  };
  return Object.keys(config).length === 0 ? {} : { output_config: config };
}

/** The API refuses bounds in a schema: whoever reads the answer checks them. */
function formatOf({ schema }: Format): object {
  const text = JSON.stringify(schema, (key, value: unknown) =>
    BOUNDS.has(key) && typeof value === "number" ? undefined : value,
  );
  return { type: "json_schema", schema: JSON.parse(text) as object };
}

const BOUNDS: ReadonlySet<string> = new Set([
  "minimum",
  "maximum",
  "minItems",
  "maxItems",
  "minLength",
  "maxLength",
]);

/**
 * Whether a model that is given a budget may think now. One that has begun to call without thinking, or
 * whose thinking is lost, goes on without until a user speaks: the API refuses anything else.
 */
function mayThink(turns: readonly Turn[]): boolean {
  const spoke = turns.findLastIndex((turn) => turn.role === "user" && turn.resultCount === 0);
  const next = turns[spoke + 1];
  return next?.role !== "assistant" || next.thinks;
}

/** The turn with which the last request ended, if the provider would not find it; -1 otherwise. */
function turnToMark(turns: readonly Turn[]): number {
  const reply = turns.findLastIndex((turn) => turn.role === "assistant");
  const added = turns.slice(reply).reduce((count, { blocks }) => count + blocks.length, 0);
  return reply > 0 && added >= LOOKBACK_BLOCKS ? reply - 1 : -1;
}

function marked(blocks: readonly string[]): readonly string[] {
  const mark = JSON.stringify(MARK).slice(1);
  return blocks.map((block, index) =>
    index === blocks.length - 1 ? `${block.slice(0, -1)},${mark}` : block,
  );
}
