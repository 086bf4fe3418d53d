import {
  type ActionId,
  boolAt,
  type CellId,
  codeAt,
  decodeShape,
  encodeFrame,
  encodeRequest,
  encodeResponse,
  encodeShape,
  FAULT,
  type Fault,
  type Field,
  FRAME_LIMIT_BYTES,
  idAt,
  listAt,
  objectAt,
  type Result,
  type Shape,
  type StructShape,
  struct,
  textAt,
  u64At,
  VARIABLE,
  type Variable,
} from "@dev/protocol";
import type { CellLimits } from "./vendor.ts";

/**
 * The link's calls, as ZAP RPC requests from the host. `open` comes first and is answered with a
 * `Hello`; `perform` (an action) with its event; the others with nothing. `close` ends the agent.
 * A `channel` request is a message of the channel that its promise numbers, and is no call.
 */
export const METHODS = {
  open: 1,
  perform: 2,
  cancel: 3,
  acknowledge: 4,
  close: 5,
  channel: 6,
} as const;

/**
 * `interim` comes any number of times before the one answer: to `open`, that the agent of before is
 * still ending; to `perform`, some output. Interim output may be dropped, an answer never. A
 * `channel` response is a message of the channel that its promise numbers, and answers nothing.
 */
export const STATUSES = { channel: 101, interim: 102, done: 200, refused: 400 } as const;

/** What an agent is told when it starts; paths are as the cell sees them, and absolute. */
export type Opening = {
  readonly cell: CellId;
  readonly generation: number;
  readonly workspace: string;
  /** A directory outside the workspace, on a disk of the cell's own that outlives its processes. */
  readonly spool: string;
  /** The ripgrep program. */
  readonly rg: string;
  /** The addon of @lydell/node-pty. */
  readonly pty: string;
  readonly limits: CellLimits;
  /** For every command. */
  readonly variables: readonly Variable[];
  /** Whether the host serves channels of kind `egress`, each as a proxy. */
  readonly hasNetwork: boolean;
  /** What commands are to trust besides the system's certificates, as PEM; empty where nothing is. */
  readonly certificates: string;
};

export type Hello = {
  readonly generation: number;
  /** The spool's identity. */
  readonly spool: string;
};

/** Some of a running command's output. */
export type Output = { readonly stream: "stdout" | "stderr"; readonly text: string };

export const LIMITS: StructShape<CellLimits> = struct<CellLimits>("CellLimits", {
  commandTimeoutMs: u64At(0),
  outputBytes: u64At(8),
  processCount: u64At(16),
  openFileCount: u64At(24),
  fileBytes: u64At(32),
  memoryBytes: u64At(40),
  diskBytes: u64At(48),
});

export const OPENING: StructShape<Opening> = struct<Opening>("Opening", {
  // Text like any other here: the agent checks that it is an id.
  cell: textAt(0) as unknown as Field<CellId>,
  generation: u64At(8),
  workspace: textAt(16),
  spool: textAt(24),
  rg: textAt(32),
  limits: objectAt(40, LIMITS),
  variables: listAt(44, VARIABLE),
  hasNetwork: boolAt(52),
  certificates: textAt(56),
  pty: textAt(64),
});

export const HELLO: StructShape<Hello> = struct<Hello>("Hello", {
  generation: u64At(0),
  spool: textAt(8),
});

export const OUTPUT: StructShape<Output> = struct<Output>("Output", {
  stream: codeAt<Output["stream"]>(0, { stdout: 1, stderr: 2 }),
  text: textAt(8),
});

type Id = { readonly id: ActionId };
const ID: StructShape<Id> = struct<Id>("Id", { id: idAt(0) });

/** The payload of `cancel` and `acknowledge`. */
export type Ids = { readonly ids: readonly Id[] };
export const IDS: StructShape<Ids> = struct<Ids>("Ids", { ids: listAt(0, ID) });

/** A framed request, ready for the stream. */
export function requestFrame(method: number, promise: number, payload: Uint8Array): Uint8Array {
  return encodeFrame(encodeRequest({ method, promise, target: 0, cap: NOTHING, payload }));
}

/** A framed response, ready for the stream. */
export function responseFrame(status: number, promise: number, body: Uint8Array): Uint8Array {
  return encodeFrame(encodeResponse({ status, promise, body }));
}

export function faultFrame(promise: number, fault: Fault): Uint8Array {
  return responseFrame(STATUSES.refused, promise, encodeShape(FAULT, fault));
}

/** Reads a payload or a body. Fault: `malformed`. */
export function readAs<T>(shape: Shape<T>, bytes: Uint8Array): Result<T> {
  return decodeShape(shape, bytes, { name: "FRAME_LIMIT_BYTES", bytes: FRAME_LIMIT_BYTES });
}

const NOTHING: Uint8Array = new Uint8Array(0);
