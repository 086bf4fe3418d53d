import type { Call } from "@dev/protocol";
import { fieldsOf } from "../json.ts";
import { parseCall } from "../tools.ts";

/** The calls of a reply, put together from the pieces in which they come. */
export type CallPieces = {
  /** Takes one entry of `tool_calls`; false when there are more calls than the limit. */
  readonly take: (piece: unknown) => boolean;
  readonly lengthUnits: () => number;
  /** The calls in their order. Of a reply that may be cut, the last is run only if it is whole. */
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
      const index = typeof piece.index === "number" ? piece.index : null;
      let call = calledBefore(all, index, id, name);
      if (call === undefined) {
        if (all.length >= limitCount) return false;
        call = { index: index ?? all.length, id, name: "", arguments: "" };
        all.push(call);
      }
      // Some repeat the whole name in every piece.
      if (name !== call.name) call.name += name;
      const text = argumentsOf(fn?.arguments);
      call.arguments += text;
      units += name.length + text.length;
      return true;
    },
    lengthUnits: () => units,
    calls(end) {
      const ordered = all.toSorted((left, right) => left.index - right.index);
      const refs = new Set(taken);
      return ordered.map((pieces, position) => {
        const ref = mintRef(pieces.id, refs);
        refs.add(ref);
        const cut = end === "maybe_cut" && position === ordered.length - 1 && !isWhole(pieces);
        return { ref, op: cut ? cutOff(pieces) : parseCall(pieces.name, pieces.arguments) };
      });
    },
  };
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

function argumentsOf(value: unknown): string {
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
function isWhole(pieces: Pieces): boolean {
  try {
    return fieldsOf(JSON.parse(pieces.arguments)) !== null;
  } catch {
    return false;
  }
}

function cutOff(pieces: Pieces): Call["op"] {
  const reason = "arguments: the reply ended before they were whole, so the call was not made";
  return { kind: "invalid", name: pieces.name, reason, arguments: pieces.arguments };
}

/** The provider's id where it is one and is new; otherwise the next of a row that needs no chance. */
function mintRef(id: string, taken: ReadonlySet<string>): string {
  if (id !== "" && !taken.has(id)) return id;
  let count = taken.size;
  while (taken.has(`call_${count}`)) count += 1;
  return `call_${count}`;
}
