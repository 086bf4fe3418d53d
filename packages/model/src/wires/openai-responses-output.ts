import { never } from "@dev/protocol";
import { type Fields, fieldsOf, listOf, textOf } from "../json.ts";
import type { Delta } from "../router.ts";
import { argumentsOf } from "./call-pieces.ts";

/** An item of a reply's output, as far as it has come. */
export type Item = MessageItem | ReasoningItem | CallItem;

export type MessageItem = Come & {
  readonly kind: "message";
  /** What the message is to its reader, in the API's own word; empty where it does not say. */
  phase: string;
  refused: boolean;
};

export type ReasoningItem = Come & {
  readonly kind: "reasoning";
  /** The part that the last delta belongs to. */
  part: string;
  /** The summary as it came, and the reasoning itself, which only the provider can read. */
  summary: readonly string[];
  encrypted: string;
};

/** Its `text` is its arguments. */
export type CallItem = Come & { readonly kind: "call"; ref: string; name: string };

type Come = { readonly index: number; id: string; text: string };

/** The output of a reply, put together from the events in which it comes. */
export type Output = {
  /** Takes a delta that an event carries; false when there are more items than the limit. */
  readonly add: (kind: Item["kind"], event: Fields, text: string) => boolean;
  /** Takes what an event says of an item: that it begins, or all that it has become. */
  readonly take: (item: Fields, event: Fields, how: "begun" | "whole") => boolean;
  /** In the order of the reply. */
  readonly items: () => readonly Item[];
  /** Of all texts together, in UTF-16 units. */
  readonly lengthUnits: () => number;
};

/** Between two messages, two pieces of reasoning and the parts of one. */
export const BETWEEN = "\n\n";

/** `tell` is told of text and reasoning as they grow. */
export function openOutput(
  limitCount: number,
  tell: (kind: Delta["kind"], text: string) => void,
): Output {
  const all: Item[] = [];
  let units = 0;
  const place = (kind: Item["kind"], said: Fields, index: number | null, how: How) => {
    const same = all.filter((item) => item.kind === kind);
    const found = find(same, said, index, how);
    if (found !== undefined) return found;
    if (same.length >= limitCount) return null;
    const made = openItem(kind, index ?? all.length, textOf(said.id));
    all.push(made);
    return made;
  };
  const grow = (item: Item, text: string) => {
    if (text === "") return;
    units += text.length;
    if (item.kind === "call") {
      item.text += text;
      return;
    }
    const isNext =
      item.text === "" && all.some((other) => other.kind === item.kind && other.text !== "");
    item.text += text;
    tell(item.kind === "message" ? "text" : "reasoning", isNext ? BETWEEN + text : text);
  };
  /** What an item is said to have become counts, whatever came of it before. */
  const settle = (item: Item, text: string) => {
    if (text.startsWith(item.text)) return grow(item, text.slice(item.text.length));
    if (text === "") return;
    units += text.length - item.text.length;
    item.text = text;
  };
  return {
    add(kind, event, text) {
      if (text === "") return true;
      const item = place(kind, { id: event.item_id }, indexOf(event), "delta");
      if (item === null) return false;
      if (item.kind === "reasoning") grow(item, nextPart(item, event) + text);
      else grow(item, text);
      return true;
    },
    take(fields, event, how) {
      const kind = kindOf(fields);
      // Items of a kind that was not asked for are no part of the answer.
      if (kind === null) return true;
      const item = place(kind, fields, indexOf(event), how);
      if (item === null) return false;
      describe(item, fields);
      if (how === "whole") settle(item, wholeText(item.kind, fields));
      return true;
    },
    items: () => all.toSorted((left, right) => left.index - right.index),
    lengthUnits: () => units,
  };
}

/** What kind of item the API says this is; null for one that no answer is made of. */
export function kindOf(item: Fields): Item["kind"] | null {
  return KINDS.get(textOf(item.type)) ?? null;
}

const KINDS: ReadonlyMap<string, Item["kind"]> = new Map([
  ["message", "message"],
  ["reasoning", "reasoning"],
  ["function_call", "call"],
]);

type How = "delta" | "begun" | "whole";

/**
 * Of the items of its kind, the one that an event is about: by its id; where some servers give one item
 * a new id with every event, by its index; where they give none, the last. Only an unknown item begins.
 */
function find(
  same: readonly Item[],
  { id, call_id: ref }: Fields,
  index: number | null,
  how: How,
): Item | undefined {
  const byId = same.findLast((item) => item.id !== "" && item.id === id);
  if (byId !== undefined) return byId;
  return same.findLast((item) => {
    const isNamed = item.kind === "call" && item.ref !== "" && typeof ref === "string";
    if (isNamed && item.ref !== ref) return false;
    if (how === "begun") return item.id === "" && item.index === index;
    if (index !== null) return item.index === index;
    return how === "delta" || item.id === "";
  });
}

function indexOf(event: Fields): number | null {
  return typeof event.output_index === "number" ? event.output_index : null;
}

function openItem(kind: Item["kind"], index: number, id: string): Item {
  const come = { index, id, text: "" };
  switch (kind) {
    case "message":
      return { ...come, kind, phase: "", refused: false };
    case "reasoning":
      return { ...come, kind, part: "", summary: [], encrypted: "" };
    case "call":
      return { ...come, kind, ref: "", name: "" };
    default:
      return never(kind);
  }
}

/** What stands between the parts of a piece of reasoning, where a delta begins a new one. */
function nextPart(item: ReasoningItem, event: Fields): string {
  const part = `${event.summary_index ?? ""}/${event.content_index ?? ""}`;
  const begins = item.text !== "" && part !== item.part;
  item.part = part;
  return begins ? BETWEEN : "";
}

function describe(item: Item, fields: Fields): void {
  item.id = textOf(fields.id) || item.id;
  switch (item.kind) {
    case "message":
      item.phase = textOf(fields.phase) || item.phase;
      item.refused ||= listOf(fields.content).some((part) => fieldsOf(part)?.type === "refusal");
      break;
    case "reasoning":
      item.encrypted = textOf(fields.encrypted_content) || item.encrypted;
      item.summary = partsOf(fields.summary);
      break;
    case "call":
      item.ref = textOf(fields.call_id) || item.ref;
      item.name = textOf(fields.name) || item.name;
      break;
    default:
      never(item);
  }
}

function wholeText(kind: Item["kind"], fields: Fields): string {
  switch (kind) {
    case "message":
      return listOf(fields.content)
        .map(fieldsOf)
        .map((part) => textOf(part?.text) || textOf(part?.refusal))
        .join("");
    case "reasoning":
      return partsOf(fields.summary).join(BETWEEN) || partsOf(fields.content).join(BETWEEN);
    case "call":
      return argumentsOf(fields.arguments);
    default:
      return never(kind);
  }
}

function partsOf(value: unknown): readonly string[] {
  return listOf(value)
    .map((part) => textOf(fieldsOf(part)?.text))
    .filter((text) => text !== "");
}
