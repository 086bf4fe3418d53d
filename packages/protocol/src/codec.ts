import type { Action } from "./action.ts";
import type { Event } from "./event.ts";
import { fail, fault, ok, type Result } from "./fault.ts";

// The ZAP codec takes this file's place; its signatures stay.
declare class TextEncoder {
  encode(text: string): Uint8Array;
}
declare class TextDecoder {
  decode(bytes: Uint8Array): string;
}

/** Writes an event as a ZAP message. */
export function encodeEvent(event: Event): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(event));
}

/** Reads an event from a ZAP message; any bytes at all give a `malformed` fault or an event. */
export function decodeEvent(bytes: Uint8Array): Result<Event> {
  return parse<Event>(bytes);
}

export function encodeAction(action: Action): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(action));
}

export function decodeAction(bytes: Uint8Array): Result<Action> {
  return parse<Action>(bytes);
}

function parse<T>(bytes: Uint8Array): Result<T> {
  try {
    return ok(JSON.parse(new TextDecoder().decode(bytes)) as T);
  } catch {
    return fail(fault("malformed", "not a message"));
  }
}
