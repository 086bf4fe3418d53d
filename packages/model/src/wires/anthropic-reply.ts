import { type ModelAnswer, NO_USAGE, type Usage } from "@dev/protocol";
import { type Fields, fieldsOf, textOf } from "../json.ts";
import type { RouterLimits } from "../limit.ts";
import { readProviderError } from "../provider-fault.ts";
import type { Ask, Delta } from "../router.ts";
import { countOf, usageOf } from "../usage.ts";
import { type KeptBlock, writeThinking } from "./anthropic-thinking.ts";
import { turnsOf } from "./anthropic-turns.ts";
import { callsOf, refsOf } from "./call-pieces.ts";
import type { Reply, Step } from "./wire.ts";

type ReplyAnswer = ModelAnswer & { readonly kind: "reply" };

const MORE: Step = { kind: "more" };

// Stop reasons beyond `end_turn`, `stop_sequence` and `tool_use`. Data: a new word is a new entry.
const LENGTHS: ReadonlySet<string> = new Set(["max_tokens", "pause_turn"]);
const REFUSALS: ReadonlySet<string> = new Set(["refusal"]);
/** Not an answer cut short but a fault: what helps is a shorter conversation, not going on. */
const OVERFLOW = "model_context_window_exceeded";

/** Of one reply; a model's own are a few, and one for each call. */
const BLOCK_LIMIT = 4_096;

type Block =
  | { readonly type: "text"; units: number }
  | { readonly type: "thinking"; thinking: string; signature: string }
  | { readonly type: "redacted_thinking"; readonly data: string }
  | {
      readonly type: "tool_use";
      readonly id: string;
      readonly name: string;
      /** As the start of the block had them; what comes in pieces stands instead. */
      readonly given: string;
      arguments: string;
    }
  /** Of a type that this wire does not ask for. */
  | { readonly type: "other" };

type Open = {
  readonly ask: Ask;
  readonly limits: RouterLimits;
  readonly tell: (kind: Delta["kind"], text: string) => void;
  /** By their index. */
  readonly blocks: Map<number, Block>;
  text: string;
  reasoning: string;
  /** What is held besides text and reasoning, in UTF-16 units. */
  heldUnits: number;
  callCount: number;
  /** The stop reason; null before it has come. */
  stop: string | null;
  done: boolean;
  used: Used;
};

/** Reads the reply to an ask from the events of a message, or from one whole message. */
export function openReply(ask: Ask, onDelta: (delta: Delta) => void, limits: RouterLimits): Reply {
  const open: Open = {
    ask,
    limits,
    tell(kind, text) {
      open[kind] += text;
      if (text !== "") onDelta({ kind, text });
    },
    blocks: new Map(),
    text: "",
    reasoning: "",
    heldUnits: 0,
    callCount: 0,
    stop: null,
    done: false,
    used: NOTHING_USED,
  };
  return {
    event: (data) => read(open, data, takeEvent),
    whole: (body) => read(open, body, takeMessage),
    state: () => ({
      answer: answerOf(open),
      partial: open.text,
      usage: summed(open.used),
      begun: open.blocks.size > 0,
    }),
  };
}

function read(open: Open, text: string, take: (open: Open, fields: Fields) => Step | null): Step {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { kind: "garbled", what: text };
  }
  const fields = fieldsOf(value);
  if (fields === null) return { kind: "garbled", what: text };
  if (fields.type === "error" || fieldsOf(fields.error) !== null) {
    const error = readProviderError(value) ?? { message: "", names: [], status: 0 };
    return { kind: "error", error };
  }
  const step = take(open, fields) ?? { kind: "garbled", what: text };
  if (step.kind === "garbled" || step.kind === "too_large") return step;
  const { callCount, replyBytes } = open.limits;
  if (open.callCount > callCount) {
    return { kind: "too_large", what: `more than ${callCount} calls` };
  }
  if (open.blocks.size > BLOCK_LIMIT) {
    return { kind: "too_large", what: `more than ${BLOCK_LIMIT} blocks` };
  }
  if (open.text.length + open.reasoning.length + open.heldUnits > replyBytes) {
    return { kind: "too_large", what: `a reply of more than ${replyBytes} bytes` };
  }
  return step;
}

/** Takes an event; null if it is none of this API's, or does not fit those before it. */
function takeEvent(open: Open, event: Fields): Step | null {
  switch (event.type) {
    case "message_start":
      open.used = usedOf(open.used, fieldsOf(event.message)?.usage);
      return MORE;
    case "content_block_start":
      return begin(open, event.index, event.content_block) ? MORE : null;
    case "content_block_delta": {
      const block = typeof event.index === "number" ? open.blocks.get(event.index) : undefined;
      const delta = fieldsOf(event.delta);
      return block && delta && goOn(open, block, delta) ? MORE : null;
    }
    case "message_delta":
      open.used = usedOf(open.used, event.usage);
      return stopAt(open, textOf(fieldsOf(event.delta)?.stop_reason));
    case "message_stop":
      open.done = true;
      return { kind: "done" };
    default:
      // New types may come at any time, says the API; a thing without one is not of it.
      return typeof event.type === "string" ? MORE : null;
  }
}

function takeMessage(open: Open, message: Fields): Step | null {
  const { content } = message;
  if (!Array.isArray(content)) return null;
  open.used = usedOf(open.used, message.usage);
  if (!content.every((block, index) => begin(open, index, block))) return null;
  open.done = true;
  return stopAt(open, textOf(message.stop_reason));
}

/** An answer without a reason to stop is at its end when its stream is. */
function stopAt(open: Open, reason: string): Step {
  if (reason === OVERFLOW) {
    const message = "the answer has filled the model's context";
    return { kind: "error", error: { message, names: [OVERFLOW], status: 0 } };
  }
  if (reason !== "") open.stop = reason;
  return open.stop === null && !open.done ? MORE : { kind: "finished" };
}

/** Begins a block. A second beginning of the same one is nothing new; one of another is a mistake. */
function begin(open: Open, index: unknown, value: unknown): boolean {
  const started = fieldsOf(value);
  if (typeof index !== "number" || started === null) return false;
  const known = open.blocks.get(index);
  if (known !== undefined) {
    if (known.type === "tool_use") return started.id === known.id;
    return known.type === "other" || started.type === known.type;
  }
  const block = blockOf(open, started);
  open.blocks.set(index, block);
  if (block.type === "tool_use") open.callCount += 1;
  return true;
}

function blockOf(open: Open, started: Fields): Block {
  switch (started.type) {
    case "text": {
      const block: Block = { type: "text", units: 0 };
      goOn(open, block, { type: "text_delta", text: started.text });
      return block;
    }
    case "thinking": {
      const block: Block = { type: "thinking", thinking: "", signature: "" };
      goOn(open, block, { type: "thinking_delta", thinking: started.thinking });
      goOn(open, block, { type: "signature_delta", signature: started.signature });
      return block;
    }
    case "redacted_thinking": {
      const data = textOf(started.data);
      open.heldUnits += data.length;
      return { type: "redacted_thinking", data };
    }
    case "tool_use": {
      const [id, name, given] = [textOf(started.id), textOf(started.name), jsonOf(started.input)];
      open.heldUnits += id.length + name.length + given.length;
      return { type: "tool_use", id, name, given, arguments: "" };
    }
    default:
      return { type: "other" };
  }
}

/** False if a block of this type has no such delta. A type of delta that is not known says nothing. */
function goOn(open: Open, block: Block, delta: Fields): boolean {
  if (block.type === "other") return true;
  switch (delta.type) {
    case "text_delta": {
      if (block.type !== "text") return false;
      const text = textOf(delta.text);
      block.units += text.length;
      open.tell("text", text);
      return true;
    }
    case "thinking_delta": {
      if (block.type !== "thinking") return false;
      const thinking = textOf(delta.thinking);
      block.thinking += thinking;
      open.tell("reasoning", thinking);
      return true;
    }
    case "signature_delta": {
      if (block.type !== "thinking") return false;
      // It comes whole: a second one stands for the first.
      const signature = textOf(delta.signature);
      open.heldUnits += signature.length - block.signature.length;
      block.signature = signature;
      return true;
    }
    case "input_json_delta": {
      if (block.type !== "tool_use") return false;
      const json = textOf(delta.partial_json);
      open.heldUnits += json.length;
      block.arguments += json;
      return true;
    }
    default:
      return true;
  }
}

/** Empty for an object without fields, as which every call begins. */
function jsonOf(value: unknown): string {
  const fields = fieldsOf(value);
  if (fields === null || Object.keys(fields).length === 0) return "";
  try {
    return JSON.stringify(fields);
  } catch {
    // Nested deeper than the stack goes: as text it is no JSON, and so no call.
    return "[nested too deeply]";
  }
}

/** A stop reason ends an answer; so does the stream's own end, if there was any answer before it. */
function answerOf(open: Open): ReplyAnswer | null {
  if (open.stop === null && !(open.done && open.blocks.size > 0)) return null;
  const stop = stopOf(open.stop ?? "");
  const blocks = [...open.blocks].sort(([left], [right]) => left - right).map(([, block]) => block);
  const came = blocks.flatMap((block) =>
    block.type === "tool_use" ? [{ ...block, arguments: block.arguments || block.given }] : [],
  );
  const calls = callsOf(came, refsOf(open.ask), stop === "end" ? "whole" : "maybe_cut");
  return {
    kind: "reply",
    text: open.text,
    reasoning: open.reasoning,
    calls,
    stop: stop === "end" && calls.length > 0 ? "calls" : stop,
    opaque: opaqueOf(open, blocks.flatMap(keptOf)),
  };
}

function stopOf(reason: string): "end" | "length" | "refusal" {
  if (REFUSALS.has(reason)) return "refusal";
  return LENGTHS.has(reason) ? "length" : "end";
}

function opaqueOf({ ask, limits }: Open, blocks: readonly KeptBlock[]): string {
  // The digest is of the whole conversation: it is not worked out for nothing.
  if (blocks.every(({ type }) => type === "text" || type === "tool_use")) return "";
  return writeThinking(ask.model, { before: turnsOf(ask).digest, blocks }, limits.opaqueBytes);
}

/** Thinking without a signature is not kept: it is no use to the provider, which would refuse it. */
function keptOf(block: Block): readonly KeptBlock[] {
  switch (block.type) {
    case "text":
      return block.units === 0 ? [] : [{ type: "text", units: block.units }];
    case "thinking": {
      const { type, thinking, signature } = block;
      return signature === "" ? [] : [{ type, thinking, signature }];
    }
    case "redacted_thinking":
      return block.data === "" ? [] : [block];
    case "tool_use":
      return [{ type: "tool_use" }];
    case "other":
      return [];
  }
}

/** As the API counts: `input` is without what was read from the cache or written to it. */
type Used = {
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWritten: number;
  readonly output: number;
  readonly thinking: number;
};

const NOTHING_USED: Used = { input: 0, cacheRead: 0, cacheWritten: 0, output: 0, thinking: 0 };

/** Counts are of the whole message so far, so that a later one is never less. */
function usedOf(used: Used, value: unknown): Used {
  const usage = fieldsOf(value);
  if (usage === null) return used;
  const { output_tokens_details: details } = usage;
  return {
    input: Math.max(used.input, countOf(usage.input_tokens)),
    cacheRead: Math.max(used.cacheRead, countOf(usage.cache_read_input_tokens)),
    cacheWritten: Math.max(used.cacheWritten, countOf(usage.cache_creation_input_tokens)),
    output: Math.max(used.output, countOf(usage.output_tokens)),
    thinking: Math.max(used.thinking, countOf(fieldsOf(details)?.thinking_tokens)),
  };
}

function summed({ input, cacheRead, cacheWritten, output, thinking }: Used): Usage {
  const whole = input + cacheRead + cacheWritten;
  return usageOf({ input: whole, cached: cacheRead, output, reasoning: thinking }, NO_USAGE);
}
