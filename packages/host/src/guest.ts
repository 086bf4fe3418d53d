import {
  actionJson,
  create,
  restore as read,
  type State,
  snapshot as save,
  snapshotParts,
  step as take,
} from "@dev/core";
import { PIECE_UNITS } from "./piece.ts";

/*
 * What is sealed: the core behind functions from text to text, so that all of it crosses in the
 * engine's own code. It holds the one session of its instance, and is as pure as the core.
 */

let state: State | undefined;
let parts: Iterator<string> = [""].values();
/** What of the last part is not told yet. */
let rest = "";

/** Begins a session, from a config as JSON. */
export function open(config: string): string {
  state = create(JSON.parse(config));
  return "";
}

/** Takes an event and answers actions, both as JSON. */
export function step(event: string): string {
  const next = take(begun(), JSON.parse(event));
  const actions = `[${next.actions.map(actionJson).join(",")}]`;
  state = next.state;
  return actions;
}

/** The state as text: its first piece, which is all of it while the conversations are short. */
export function snapshot(): string {
  const { agents } = begun();
  let messageBytes = 0;
  for (const agent of agents) messageBytes += agent.messageBytes;
  // Of a short one the host asks for no more.
  const text = messageBytes <= PIECE_UNITS / 2 ? save(begun()) : "";
  rest = "";
  if (text !== "" && text.length < PIECE_UNITS) {
    parts = [""].values();
    return text;
  }
  parts = snapshotParts(begun());
  return more();
}

/**
 * The next piece of the snapshot that was begun last, which is shorter where there is no more: the
 * memory may have no room for another copy of all messages, or of one that is long, at once.
 */
export function more(): string {
  const texts: string[] = [];
  let units = 0;
  while (units < PIECE_UNITS) {
    if (rest === "") {
      const next = parts.next();
      if (next.done === true) break;
      rest = next.value;
    }
    const end = PIECE_UNITS - units;
    // No surrogate pair is parted.
    const unit = rest.charCodeAt(end);
    const text = rest.slice(0, unit >= 0xdc00 && unit <= 0xdfff ? end + 1 : end);
    texts.push(text);
    units += text.length;
    rest = rest.slice(text.length);
  }
  return texts.join("");
}

/** Goes on from a snapshot's text. Answers nothing, or the fault as JSON. */
export function restore(text: string): string {
  const restored = read(text);
  if (!restored.ok) return JSON.stringify(restored.fault);
  state = restored.value;
  return "";
}

function begun(): State {
  if (state === undefined) throw new Error("a session that was not begun");
  return state;
}
