import type { Action } from "./action.ts";
import { decodeShape } from "./decode.ts";
import { encodeShape } from "./encode.ts";
import type { Event } from "./event.ts";
import type { Result } from "./fault.ts";
import { EVENT_LIMIT_BYTES, FRAME_LIMIT_BYTES } from "./limit.ts";
import { ACTION, EVENT } from "./schema.ts";

/** Writes an event as a ZAP message. A number that the wire cannot carry is a bug, and throws. */
export function encodeEvent(event: Event): Uint8Array {
  return encodeShape(EVENT, event);
}

/**
 * Reads an event from a ZAP message; any bytes at all give an event or a fault: `too_large` above
 * EVENT_LIMIT_BYTES, `malformed` otherwise, saying where and why.
 */
export function decodeEvent(bytes: Uint8Array): Result<Event> {
  return decodeShape(EVENT, bytes, { name: "EVENT_LIMIT_BYTES", bytes: EVENT_LIMIT_BYTES });
}

/** Writes an action as a ZAP message. A number that the wire cannot carry is a bug, and throws. */
export function encodeAction(action: Action): Uint8Array {
  return encodeShape(ACTION, action);
}

/** Reads an action from a ZAP message, as `decodeEvent` does; its limit is FRAME_LIMIT_BYTES. */
export function decodeAction(bytes: Uint8Array): Result<Action> {
  return decodeShape(ACTION, bytes, { name: "FRAME_LIMIT_BYTES", bytes: FRAME_LIMIT_BYTES });
}
