import { type AssistantMessage, type Call, never } from "@dev/protocol";
import { type Fields, fieldsOf, listOf, textOf } from "../json.ts";
import { BETWEEN, type Item } from "./openai-responses-output.ts";
import { wellFormed } from "./text.ts";

/** A part of an assistant's message that the API is given back, in the order in which it came. */
export type Carried =
  | { readonly kind: "reasoning"; readonly item: object }
  | { readonly kind: "message"; readonly text: string; readonly phase: string }
  | { readonly kind: "call"; readonly call: Call };

/**
 * What a reply's message must carry to be given back whole: its encrypted reasoning, and how text and
 * calls stood between it. Empty where there is nothing that the message itself does not say, and past
 * `limitBytes`: without its reasoning a model thinks anew, which costs but works.
 */
export function writeOpaque(items: readonly Item[], model: string, limitBytes: number): string {
  const kept = items.filter(isKept);
  // The API refuses reasoning with nothing behind it, as of a reply that was cut while it thought.
  const last = kept.findLastIndex((item) => item.kind !== "reasoning");
  const parts = kept.slice(0, last + 1).map(writePart);
  if (parts.every((part) => part.type !== "reasoning" && !("phase" in part))) return "";
  const opaque = JSON.stringify({ wire: WIRE, model, items: parts });
  return Buffer.byteLength(opaque) > limitBytes ? "" : opaque;
}

/** Reads `writeOpaque`; null where it is another wire's or model's, or not of this message. */
export function readOpaque(message: AssistantMessage, model: string): readonly Carried[] | null {
  const opaque = parse(message.opaque);
  if (opaque === null || opaque.wire !== WIRE || opaque.model !== model) return null;
  const carried: Carried[] = [];
  let readUnits = 0;
  let callCount = 0;
  for (const part of listOf(opaque.items).map(fieldsOf)) {
    if (part?.type === "reasoning") carried.push({ kind: "reasoning", item: part });
    else if (part?.type === "message" && typeof part.units === "number") {
      if (readUnits > 0) readUnits += BETWEEN.length;
      const text = message.text.slice(readUnits, readUnits + part.units);
      readUnits += part.units;
      carried.push({ kind: "message", text, phase: textOf(part.phase) });
    } else {
      const call = part?.type === "function_call" ? message.calls[callCount] : undefined;
      if (call === undefined) return null;
      callCount += 1;
      carried.push({ kind: "call", call });
    }
  }
  // The message was changed on its way: how it stood between its reasoning is no longer known.
  const isWhole = readUnits === message.text.length && callCount === message.calls.length;
  return isWhole ? carried : null;
}

const WIRE = "openai-responses";

function isKept(item: Item): boolean {
  switch (item.kind) {
    case "message":
      return item.text !== "";
    case "reasoning":
      return item.encrypted !== "";
    case "call":
      return true;
    default:
      return never(item);
  }
}

function writePart(item: Item): Fields {
  switch (item.kind) {
    case "message":
      return {
        type: "message",
        units: item.text.length,
        ...(item.phase === "" ? {} : { phase: item.phase }),
      };
    case "reasoning":
      return {
        type: "reasoning",
        ...(item.id === "" ? {} : { id: item.id }),
        summary: item.summary.map((text) => ({ type: "summary_text", text: wellFormed(text) })),
        encrypted_content: item.encrypted,
      };
    case "call":
      return { type: "function_call" };
    default:
      return never(item);
  }
}

function parse(text: string): Fields | null {
  if (text === "") return null;
  try {
    return fieldsOf(JSON.parse(text));
  } catch {
    // Another wire's, which need not be JSON.
    return null;
  }
}
