import type { Call } from "@dev/protocol";
import { fieldsOf } from "../json.ts";
import type { Ask } from "../router.ts";
import { parseCall } from "../tools.ts";

/** The calls of a reply, put together from the pieces in which they come. */
export type CallPieces = {
  /** Takes one entry of `tool_calls`; false when there are more calls than the limit. */
  readonly take: (piece: unknown) => boolean;
  readonly lengthUnits: () => number;
  /** The calls in their order; see `callsOf`. */
  readonly calls: (end: "whole" | "maybe_cut") => readonly Call[];
};

type Pieces = { readonly index: number; id: string; name: string; arguments: string };

/** `taken` are the refs of the conversation so far: a new call never shares one with an old call. */
export function openCallPieces(taken: ReadonlySet<string>, limitCount: number): CallPieces {
  const all: Pieces[] = [];
  let units = 0;
  return {
    take(value) {
      const piece = fieldsOf(value);
      if (piece === null) return true;
      const fn = fieldsOf(piece.function);
      const id = typeof piece.id === "string" ? piece.id : "";
      const name = typeof fn?.name === "string" ? fn.name : "";
      const text = argumentsOf(fn?.arguments);
      // A piece that says nothing begins nothing.
      if (id === "" && name === "" && text === "") return true;
      const index = typeof piece.index === "number" ? piece.index : null;
      let call = calledBefore(all, index, id, name);
      if (call === undefined) {
        if (all.length >= limitCount) return false;
        call = { index: index ?? all.length, id, name: "", arguments: "" };
        all.push(call);
      }
      // Some repeat the whole name in every piece.
      if (name !== call.name) call.name += name;
      call.arguments += text;
      units += name.length + text.length;
      return true;
    },
    lengthUnits: () => units,
    calls: (end) =>
      callsOf(
        all.toSorted((left, right) => left.index - right.index),
        taken,
        end,
      ),
  };
}

/** A call as far as it came; `id` is the provider's. */
export type CameCall = { readonly id: string; readonly name: string; readonly arguments: string };

/**
 * The calls, each with a ref of its own. Of a reply that may be cut only what is whole is a call: of
 * several whose pieces come mixed, any may be half.
 */
export function callsOf(
  came: readonly CameCall[],
  taken: ReadonlySet<string>,
  end: "whole" | "maybe_cut",
): readonly Call[] {
  const refs = new Set(taken);
  return came.map((call) => {
    const ref = mintRef(call.id, refs);
    refs.add(ref);
    const half = end === "maybe_cut" && !isWhole(call.arguments);
    return { ref, op: half ? cutOff(call) : parseCall(call.name, call.arguments) };
  });
}

/** The refs of the conversation so far. */
export function refsOf(ask: Ask): ReadonlySet<string> {
  const refs = new Set<string>();
  for (const message of ask.messages) {
    if (message.kind === "assistant") for (const call of message.calls) refs.add(call.ref);
  }
  return refs;
}

/**
 * The call that a piece goes on with. An index tells, except that some servers give every call the
 * same one: there a new id with a name begins a new call. Without an index, a name or id begins one.
 */
function calledBefore(
  all: readonly Pieces[],
  index: number | null,
  id: string,
  name: string,
): Pieces | undefined {
  const last = all.findLast((pieces) => index === null || pieces.index === index);
  if (last === undefined) return undefined;
  const other = id !== "" && id !== last.id;
  const begins = index === null ? other || (id === "" && name !== "") : other && name !== "";
  return begins ? undefined : last;
}

/** A call's arguments as JSON text; some servers send them as the object itself. */
export function argumentsOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (fieldsOf(value) === null) return "";
  try {
    return JSON.stringify(value);
  } catch {
    // Nested deeper than the stack goes: as text it is no JSON, and so no call.
    return "[nested too deeply]";
  }
}

/** No proper prefix of a JSON object is one, so what can be read as an object is whole. */
function isWhole(text: string): boolean {
  try {
    return fieldsOf(JSON.parse(text)) !== null;
  } catch {
    return false;
  }
}

function cutOff(call: CameCall): Call["op"] {
  const reason = "arguments: the reply ended before they were whole, so the call was not made";
  return { kind: "invalid", name: call.name, reason, arguments: call.arguments };
}

/** The provider's id where it is one and is new; otherwise the next of a row that needs no chance. */
function mintRef(id: string, taken: ReadonlySet<string>): string {
  if (id !== "" && !taken.has(id)) return id;
  let count = taken.size;
  while (taken.has(`call_${count}`)) count += 1;
  return `call_${count}`;
}
