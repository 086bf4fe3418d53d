import { fail, fault, ok, type Result } from "./fault.ts";
import { readBytes, readU32 } from "./reader.ts";
import { finish, openWriter, startObject, writeBytes, writeU32 } from "./writer.ts";
import { ENVELOPE_VERSION, parseZap, type Zap } from "./zap.ts";

/** A call over ZAP's RPC. `method` counts from 1; `target` is the promise it builds on, 0 for none. */
export type RpcRequest = {
  readonly method: number;
  readonly promise: number;
  readonly target: number;
  /** The capability that the call is made with, opaque; empty for none. */
  readonly cap: Uint8Array;
  readonly payload: Uint8Array;
};

/** The answer to the request of the same promise; its statuses are those of HTTP. */
export type RpcResponse = {
  readonly status: number;
  readonly promise: number;
  readonly body: Uint8Array;
};

/** The message type of an envelope, in the high byte of the header's flags. */
export const ENVELOPE_FLAGS: number = 0xc800;

const REQUEST = { method: 0, promise: 4, target: 8, cap: 12, payload: 20, sizeBytes: 28 } as const;
const RESPONSE = { status: 0, promise: 4, body: 12, sizeBytes: 20 } as const;

export function encodeRequest(request: RpcRequest): Uint8Array {
  const { cap, payload } = request;
  const writer = openWriter(64 + cap.byteLength + payload.byteLength);
  const object = startObject(writer, REQUEST.sizeBytes);
  writeU32(writer, object + REQUEST.method, request.method);
  writeU32(writer, object + REQUEST.promise, request.promise);
  writeU32(writer, object + REQUEST.target, request.target);
  writeBytes(writer, object + REQUEST.cap, cap);
  writeBytes(writer, object + REQUEST.payload, payload);
  return finish(writer, object, ENVELOPE_VERSION, ENVELOPE_FLAGS);
}

/** Reads a request; its `cap` and `payload` are views of `bytes`. Fault: `malformed`. */
export function decodeRequest(bytes: Uint8Array): Result<RpcRequest> {
  const opened = openEnvelope(bytes);
  if (!opened.ok) return opened;
  const zap = opened.value;
  return ok({
    method: readU32(zap, zap.root + REQUEST.method),
    promise: readU32(zap, zap.root + REQUEST.promise),
    target: readU32(zap, zap.root + REQUEST.target),
    cap: readBytes(zap, zap.root + REQUEST.cap),
    payload: readBytes(zap, zap.root + REQUEST.payload),
  });
}

export function encodeResponse(response: RpcResponse): Uint8Array {
  const writer = openWriter(64 + response.body.byteLength);
  const object = startObject(writer, RESPONSE.sizeBytes);
  writeU32(writer, object + RESPONSE.status, response.status);
  writeU32(writer, object + RESPONSE.promise, response.promise);
  writeBytes(writer, object + RESPONSE.body, response.body);
  return finish(writer, object, ENVELOPE_VERSION, ENVELOPE_FLAGS);
}

/** Reads a response; its `body` is a view of `bytes`. Fault: `malformed`. */
export function decodeResponse(bytes: Uint8Array): Result<RpcResponse> {
  const opened = openEnvelope(bytes);
  if (!opened.ok) return opened;
  const zap = opened.value;
  return ok({
    status: readU32(zap, zap.root + RESPONSE.status),
    promise: readU32(zap, zap.root + RESPONSE.promise),
    body: readBytes(zap, zap.root + RESPONSE.body),
  });
}

function openEnvelope(bytes: Uint8Array): Result<Zap> {
  const parsed = parseZap(bytes);
  if (!parsed.ok || parsed.value.flags === ENVELOPE_FLAGS) return parsed;
  return fail(fault("malformed", `not an RPC envelope: its flags are ${parsed.value.flags}`));
}
