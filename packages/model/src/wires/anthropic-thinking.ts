import { fieldsOf, listOf } from "../json.ts";

/** A block of a reply, as far as it has to be known when the reply is given back. */
export type KeptBlock =
  | { readonly type: "thinking"; readonly thinking: string; readonly signature: string }
  | { readonly type: "redacted_thinking"; readonly data: string }
  /** So many UTF-16 units of the message's text. */
  | { readonly type: "text"; readonly units: number }
  /** The next of the message's calls. */
  | { readonly type: "tool_use" };

/** The thinking of a reply: all its blocks in their order, and the digest of what was asked. */
export type Thinking = { readonly before: string; readonly blocks: readonly KeptBlock[] };

/**
 * Writes thinking as a message's `opaque`; empty if it is longer than the limit: a request without it is
 * a good one, one with half of it is not.
 */
export function writeThinking(model: string, thinking: Thinking, limitBytes: number): string {
  const opaque = JSON.stringify({ wire: WIRE, model, ...thinking });
  return Buffer.byteLength(opaque) > limitBytes ? "" : opaque;
}

/** Reads what `writeThinking` wrote for this model; null for anything else. */
export function readThinking(opaque: string, model: string): Thinking | null {
  if (opaque === "") return null;
  let value: unknown;
  try {
    value = JSON.parse(opaque);
  } catch {
    return null;
  }
  const kept = fieldsOf(value);
  if (kept?.wire !== WIRE || kept.model !== model || typeof kept.before !== "string") return null;
  const blocks = listOf(kept.blocks).map(keptBlock);
  if (!blocks.every((block) => block !== null)) return null;
  return { before: kept.before, blocks };
}

const WIRE = "anthropic";

function keptBlock(value: unknown): KeptBlock | null {
  const block = fieldsOf(value);
  switch (block?.type) {
    case "thinking": {
      const { thinking, signature } = block;
      if (typeof thinking !== "string" || typeof signature !== "string") return null;
      return { type: "thinking", thinking, signature };
    }
    case "redacted_thinking": {
      const { data } = block;
      return typeof data === "string" ? { type: "redacted_thinking", data } : null;
    }
    case "text": {
      const { units } = block;
      return typeof units === "number" && units >= 0 ? { type: "text", units } : null;
    }
    case "tool_use":
      return { type: "tool_use" };
    default:
      return null;
  }
}
