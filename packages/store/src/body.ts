import {
  type Action,
  decodeAction,
  decodeEvent,
  EVENT_LIMIT_BYTES,
  type Event,
  encodeAction,
  encodeEvent,
  FRAME_LIMIT_BYTES,
  fail,
  fault,
  ok,
  type Result,
} from "@dev/protocol";

/** An event or an action as a row keeps it: bytes, and the number of the format they are in. */
export type Body = { readonly format: number; readonly body: Uint8Array };
export type StoredBody = { readonly format: number; readonly body: Uint8Array | ArrayBuffer };

// Each format ever written has a reader here, for ever; only the newest is written.
const EVENT_READERS: Readonly<Record<number, (bytes: Uint8Array) => Result<Event>>> = {
  1: decodeEvent,
};
const ACTION_READERS: Readonly<Record<number, (bytes: Uint8Array) => Result<Action>>> = {
  1: decodeAction,
};
const NEWEST_FORMAT = 1;

/** Fault: `too_large`, for what could be written but never read again. */
export function eventBody(event: Event): Result<Body> {
  return bodyOf(encodeEvent(event), EVENT_LIMIT_BYTES, "EVENT_LIMIT_BYTES");
}

/** Fault: `too_large`. */
export function actionBody(action: Action): Result<Body> {
  return bodyOf(encodeAction(action), FRAME_LIMIT_BYTES, "FRAME_LIMIT_BYTES");
}

function bodyOf(body: Uint8Array, limitBytes: number, limit: string): Result<Body> {
  if (body.length <= limitBytes) return ok({ format: NEWEST_FORMAT, body });
  return fail(fault("too_large", `${body.length} bytes are more than ${limit}`, `${limitBytes}`));
}

/** Faults: `corrupt` for bytes that are not an event, `newer_version`. `where` names the row. */
export function readEvent(stored: StoredBody, where: string): Result<Event> {
  return read(EVENT_READERS, stored, where);
}

/** Faults as `readEvent`. */
export function readAction(stored: StoredBody, where: string): Result<Action> {
  return read(ACTION_READERS, stored, where);
}

/** A view of bytes that came out of a database. */
export function view(bytes: Uint8Array | ArrayBuffer): Uint8Array {
  return bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes);
}

function read<T>(
  readers: Readonly<Record<number, (bytes: Uint8Array) => Result<T>>>,
  stored: StoredBody,
  where: string,
): Result<T> {
  const reader = readers[stored.format];
  if (reader === undefined) {
    return fail(
      fault(
        "newer_version",
        `written in format ${stored.format}, which this version of Dev does not read`,
        where,
        "install the newest Dev",
      ),
    );
  }
  const decoded = reader(view(stored.body));
  if (decoded.ok) return decoded;
  return fail(
    fault(
      "corrupt",
      `a stored message is damaged: ${decoded.fault.message}`,
      where,
      "restore the store from a backup; the session's other entries are untouched",
    ),
  );
}
