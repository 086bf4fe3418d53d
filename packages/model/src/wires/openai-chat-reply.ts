import { type Call, type ModelAnswer, NO_USAGE, type Usage } from "@dev/protocol";
import { type Fields, fieldsOf, listOf, textOf } from "../json.ts";
import type { RouterLimits } from "../limit.ts";
import { readProviderError } from "../provider-fault.ts";
import type { Ask, Delta } from "../router.ts";
import { usageOf } from "../usage.ts";
import { type CallPieces, openCallPieces, refsOf } from "./call-pieces.ts";
import type { Reply, Step } from "./wire.ts";

type ReplyAnswer = ModelAnswer & { readonly kind: "reply" };

const MORE: Step = { kind: "more" };

// Finish reasons beyond `stop` and `tool_calls`. Data: a provider's new word is a new entry.
const FAILURES: ReadonlySet<string> = new Set(["error", "abort", "insufficient_system_resource"]);
const LENGTHS: ReadonlySet<string> = new Set(["length", "max_tokens", "model_length"]);
const REFUSALS: ReadonlySet<string> = new Set(["content_filter", "safety"]);

type Open = {
  readonly calls: CallPieces;
  readonly tell: (kind: Delta["kind"], text: string) => void;
  text: string;
  reasoning: string;
  refused: boolean;
  /** The finish reason; null before it has come. */
  finish: string | null;
  done: boolean;
  begun: boolean;
  usage: Usage;
};

/** Reads the reply to an ask from chat completion chunks, or from one whole chat completion. */
export function openReply(ask: Ask, onDelta: (delta: Delta) => void, limits: RouterLimits): Reply {
  const open: Open = {
    calls: openCallPieces(refsOf(ask), limits.callCount),
    tell(kind, text) {
      open[kind] += text;
      if (text !== "") onDelta({ kind, text });
    },
    text: "",
    reasoning: "",
    refused: false,
    finish: null,
    done: false,
    begun: false,
    usage: NO_USAGE,
  };
  return {
    event(data) {
      if (data.trim() !== "[DONE]") return take(open, data, "delta", limits);
      open.done = true;
      return { kind: "done" };
    },
    whole: (body) => take(open, body, "message", limits),
    state: () => ({
      answer: answerOf(open),
      partial: open.text,
      usage: open.usage,
      begun: open.begun,
    }),
  };
}

/** Takes a chunk (whose choice holds a `delta`) or a whole completion (whose choice has a `message`). */
function take(open: Open, text: string, part: "delta" | "message", limits: RouterLimits): Step {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { kind: "garbled", what: text };
  }
  const chunk = fieldsOf(value);
  if (chunk === null) return { kind: "garbled", what: text };
  if (chunk.error || chunk.object === "error") return errorStep(value);
  open.usage = used(open, chunk.usage);
  const choice = listOf(chunk.choices)
    .map(fieldsOf)
    .find((each) => each !== null && (each.index ?? 0) === 0);
  if (!choice) {
    // A chunk of a stream may hold usage alone; a whole completion without a choice is none.
    return part === "delta" ? MORE : { kind: "garbled", what: text };
  }
  const fields = fieldsOf(choice[part] ?? choice.delta ?? choice.message);
  if (fields !== null && !takeDelta(open, fields, part)) {
    return { kind: "too_large", what: `more than ${limits.callCount} calls` };
  }
  open.begun = true;
  if (part === "message") open.done = true;
  const units = open.text.length + open.reasoning.length + open.calls.lengthUnits();
  if (units > limits.replyBytes) {
    return { kind: "too_large", what: `a reply of more than ${limits.replyBytes} bytes` };
  }
  const finish = textOf(choice.finish_reason);
  if (FAILURES.has(finish)) return errorStep(choice);
  if (finish !== "") open.finish = finish;
  return open.finish === null ? MORE : { kind: "finished" };
}

/** What a provider reports in the middle of a 2xx answer; it may have no more to say than that. */
function errorStep(value: unknown): Step {
  const error = readProviderError(value) ?? { message: "", names: [], status: 0 };
  return { kind: "error", error };
}

/** False when there are more calls than the limit. */
function takeDelta(open: Open, delta: Fields, part: "delta" | "message"): boolean {
  // Some send the same reasoning under both names.
  open.tell("reasoning", textOf(delta.reasoning_content) || textOf(delta.reasoning));
  open.tell("text", textOf(delta.content));
  const refusal = textOf(delta.refusal);
  if (refusal !== "") {
    open.refused = true;
    open.tell("text", refusal);
  }
  // In a whole message each entry is a call of its own; in a delta it is a piece of one.
  return listOf(delta.tool_calls).every((piece, position) =>
    open.calls.take(part === "message" ? { ...fieldsOf(piece), index: position } : piece),
  );
}

/** A finish reason ends an answer; so does the stream's own end, if there was any answer before it. */
function answerOf(open: Open): ReplyAnswer | null {
  if (open.finish === null && !(open.done && open.begun)) return null;
  const stop = stopOf(open);
  const calls: readonly Call[] = open.calls.calls(stop === "end" ? "whole" : "maybe_cut");
  return {
    kind: "reply",
    text: open.text,
    reasoning: open.reasoning,
    calls,
    // Many servers say `stop` although they call.
    stop: stop === "end" && calls.length > 0 ? "calls" : stop,
    opaque: "",
  };
}

function stopOf(open: Open): "end" | "length" | "refusal" {
  const finish = open.finish ?? "";
  if (open.refused || REFUSALS.has(finish)) return "refusal";
  return LENGTHS.has(finish) ? "length" : "end";
}

function used(open: Open, value: unknown): Usage {
  const usage = fieldsOf(value);
  if (usage === null) return open.usage;
  const said = {
    input: usage.prompt_tokens,
    cached: fieldsOf(usage.prompt_tokens_details)?.cached_tokens,
    output: usage.completion_tokens,
    reasoning: fieldsOf(usage.completion_tokens_details)?.reasoning_tokens,
  };
  return usageOf(said, open.usage);
}
