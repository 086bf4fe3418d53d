import { type ModelAnswer, NO_USAGE, type Usage } from "@dev/protocol";
import { type Fields, fieldsOf, listOf, textOf } from "../json.ts";
import type { RouterLimits } from "../limit.ts";
import { readProviderError } from "../provider-fault.ts";
import type { Ask, Delta } from "../router.ts";
import { usageOf } from "../usage.ts";
import { callsOf, refsOf } from "./call-pieces.ts";
import { writeOpaque } from "./openai-responses-opaque.ts";
import {
  BETWEEN,
  type CallItem,
  type Item,
  kindOf,
  type Output,
  openOutput,
} from "./openai-responses-output.ts";
import type { Reply, Step } from "./wire.ts";

type ReplyAnswer = ModelAnswer & { readonly kind: "reply" };

const MORE: Step = { kind: "more" };
const DONE: Step = { kind: "done" };

type Open = {
  readonly ask: Ask;
  readonly limits: RouterLimits;
  readonly output: Output;
  readonly numbers: Numbers;
  /** How it ended; null while it has not. */
  end: "complete" | "length" | "filtered" | null;
  refused: boolean;
  begun: boolean;
  usage: Usage;
};

/** Reads the reply to an ask from the events of a response, or from one whole response. */
export function openReply(ask: Ask, onDelta: (delta: Delta) => void, limits: RouterLimits): Reply {
  const tell = (kind: Delta["kind"], text: string) => onDelta({ kind, text });
  const open: Open = {
    ask,
    limits,
    output: openOutput(limits.callCount, tell),
    numbers: openNumbers(),
    end: null,
    refused: false,
    begun: false,
    usage: NO_USAGE,
  };
  return {
    event: (data) => (data.trim() === "[DONE]" ? DONE : takeEvent(open, data)),
    whole: (text) => takeWhole(open, text),
    state: () => ({
      answer: answerOf(open),
      partial: textsOf(open, "message"),
      usage: open.usage,
      begun: open.begun,
    }),
  };
}

/** Which item a delta adds to. Data: a new kind of delta is a new line. */
const DELTAS: ReadonlyMap<string, Item["kind"]> = new Map([
  ["response.output_text.delta", "message"],
  ["response.refusal.delta", "message"],
  ["response.reasoning_summary_text.delta", "reasoning"],
  ["response.reasoning_text.delta", "reasoning"],
  ["response.function_call_arguments.delta", "call"],
]);

function takeEvent(open: Open, text: string): Step {
  const event = parse(text);
  if (event === null) return { kind: "garbled", what: text };
  open.numbers.note(event.sequence_number);
  const type = textOf(event.type);
  const item = DELTAS.get(type);
  if (item !== undefined) return takeDelta(open, item, type, event);
  switch (type) {
    case "response.output_item.added":
      return takeItem(open, event.item, event, "begun");
    case "response.output_item.done":
      return takeItem(open, event.item, event, "whole");
    case "response.function_call_arguments.done": {
      const { item_id: id, arguments: json, name } = event;
      return takeItem(open, { type: "function_call", id, name, arguments: json }, event, "whole");
    }
    case "response.completed":
    case "response.incomplete":
    case "response.failed":
    case "response.cancelled":
      return finish(open, type.slice("response.".length), fieldsOf(event.response) ?? {});
    case "error":
      return errorStep(event);
    case "":
      return event.error ? errorStep(event) : { kind: "garbled", what: text };
    default:
      return MORE;
  }
}

function takeWhole(open: Open, text: string): Step {
  const response = parse(text);
  if (response === null) return { kind: "garbled", what: text };
  if (response.error || response.type === "error") return errorStep(response);
  if (!Array.isArray(response.output)) return { kind: "garbled", what: text };
  return finish(open, textOf(response.status) || "completed", response);
}

function takeDelta(open: Open, kind: Item["kind"], type: string, event: Fields): Step {
  const delta = textOf(event.delta);
  if (delta === "" || !open.numbers.isNew(event.sequence_number)) return MORE;
  open.begun = true;
  if (type === "response.refusal.delta") open.refused = true;
  return within(open, open.output.add(kind, event, delta), kind);
}

function takeItem(open: Open, value: unknown, event: Fields, how: "begun" | "whole"): Step {
  const item = fieldsOf(value);
  if (item === null) return MORE;
  if (how === "whole") open.begun = true;
  return within(open, open.output.take(item, event, how), textOf(item.type));
}

/** Ends the reply as its status says; of its output counts what did not come item by item. */
function finish(open: Open, status: string, response: Fields): Step {
  open.usage = used(open, response.usage);
  if (status !== "completed" && status !== "incomplete") return errorStep(response);
  const come = new Set<Item["kind"] | null>(open.output.items().map((item) => item.kind));
  for (const [index, item] of listOf(response.output).entries()) {
    if (come.has(kindOf(fieldsOf(item) ?? {}))) continue;
    const step = takeItem(open, item, { output_index: index }, "whole");
    if (step.kind !== "more") return step;
  }
  const reason = textOf(fieldsOf(response.incomplete_details)?.reason);
  if (status === "completed") open.end = "complete";
  else open.end = reason === "content_filter" ? "filtered" : "length";
  open.begun = true;
  return DONE;
}

function within(open: Open, fits: boolean, kind: string): Step {
  const { callCount, replyBytes } = open.limits;
  if (!fits) {
    const what = kind === "call" || kind === "function_call" ? "calls" : "items";
    return { kind: "too_large", what: `more than ${callCount} ${what}` };
  }
  return open.output.lengthUnits() > replyBytes
    ? { kind: "too_large", what: `a reply of more than ${replyBytes} bytes` }
    : MORE;
}

/** What a provider reports in the middle of a 2xx answer; it may have no more to say than that. */
function errorStep(value: Fields): Step {
  const error = readProviderError(value) ?? { message: "", names: [], status: 0 };
  return { kind: "error", error };
}

function answerOf(open: Open): ReplyAnswer | null {
  if (open.end === null) return null;
  const items = open.output.items();
  const { ask, limits } = open;
  const came = items
    .filter((item): item is CallItem => item.kind === "call")
    .map(({ ref: id, name, text }) => ({ id, name, arguments: text }));
  const stop = stopOf(open, items);
  const calls = callsOf(came, refsOf(ask), stop === "end" ? "whole" : "maybe_cut");
  return {
    kind: "reply",
    text: textsOf(open, "message"),
    reasoning: textsOf(open, "reasoning"),
    calls,
    stop: stop === "end" && calls.length > 0 ? "calls" : stop,
    opaque: writeOpaque(items, ask.model, limits.opaqueBytes),
  };
}

function stopOf(open: Open, items: readonly Item[]): "end" | "length" | "refusal" {
  const refused = open.refused || items.some((item) => item.kind === "message" && item.refused);
  if (refused || open.end === "filtered") return "refusal";
  return open.end === "length" ? "length" : "end";
}

function textsOf(open: Open, kind: "message" | "reasoning"): string {
  return open.output
    .items()
    .filter((item) => item.kind === kind && item.text !== "")
    .map((item) => item.text)
    .join(BETWEEN);
}

function used(open: Open, value: unknown): Usage {
  const usage = fieldsOf(value);
  if (usage === null) return open.usage;
  const said = {
    input: usage.input_tokens,
    cached: fieldsOf(usage.input_tokens_details)?.cached_tokens,
    output: usage.output_tokens,
    reasoning: fieldsOf(usage.output_tokens_details)?.reasoning_tokens,
  };
  return usageOf(said, open.usage);
}

/** The numbers of a stream's events, which grow from event to event. */
type Numbers = {
  /** Takes the number of any event. */
  readonly note: (number: unknown) => void;
  /** Whether a delta of this number did not come before; without one, every delta is new. */
  readonly isNew: (number: unknown) => boolean;
};

function openNumbers(): Numbers {
  let lowest = Number.POSITIVE_INFINITY;
  let highest = Number.NEGATIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  return {
    note(number) {
      if (typeof number !== "number") return;
      lowest = Math.min(lowest, number);
      highest = Math.max(highest, number);
    },
    isNew(number) {
      // A server that gives every event the same number does not count them.
      if (typeof number !== "number" || lowest === highest) return true;
      if (number <= last) return false;
      last = number;
      return true;
    },
  };
}

function parse(text: string): Fields | null {
  try {
    return fieldsOf(JSON.parse(text));
  } catch {
    return null;
  }
}
