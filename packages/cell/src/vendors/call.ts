import {
  type CellId,
  codeAt,
  encodeShape,
  FAULT,
  type Fault,
  type Field,
  listAt,
  objectAt,
  type Result,
  type StructShape,
  struct,
  textAt,
  textsAt,
  type UnionShape,
  u64At,
  union,
  VARIABLE,
  type Variable,
} from "@dev/protocol";
import type { Boundary, CellSpec } from "../vendor.ts";
import { LIMITS, readAs } from "../wire.ts";

/*
 * What travels between a host and a vendor on another machine: a call opens a `vendor` channel, and
 * the reports come back on it, each in a frame; the first answers the call.
 */

export type VendorCall =
  | { readonly kind: "describe" }
  | { readonly kind: "create" | "get"; readonly cell: CellId; readonly spec: WireSpec }
  | { readonly kind: "hibernate" | "delete"; readonly cell: CellId };

/**
 * A `CellSpec` as it travels. Its workspace is a name that the vendor gives a meaning. A cell elsewhere has no
 * network: a spec that asks for one is refused before it gets here.
 */
export type WireSpec = Pick<CellSpec, "workspace" | "limits"> & {
  readonly variables: readonly Variable[];
};

/** What a cell's own workspace is called, which is filled from the host's. */
export const OWN_WORKSPACE = "";

export type Report =
  | { readonly kind: "requested" | "starting" | "provisioning" | "stopping" | "stopped" | "gone" }
  | {
      readonly kind: "ready";
      readonly generation: number;
      readonly boundary: Boundary;
      readonly spool: string;
    }
  | { readonly kind: "failed"; readonly fault: Fault }
  /** The call's own fault. */
  | { readonly kind: "refused"; readonly fault: Fault }
  | ({ readonly kind: "described" } & Description);

/** What a vendor on another machine has. */
export type Description = {
  /** The kind of its cells. */
  readonly vendor: string;
  /** Directories that its cells work in, by name. Sessions in one of these share its files. */
  readonly workspaces: readonly string[];
};

/** Names a cell, as the opening of a `cell` channel does. */
export type CellName = { readonly cell: CellId; readonly generation: number };

// Text like any other: whoever reads it checks that it is an id.
const CELL = textAt(8) as unknown as Field<CellId>;

const SPEC: StructShape<WireSpec> = struct<WireSpec>("CellSpec", {
  workspace: textAt(0),
  limits: objectAt(8, LIMITS),
  variables: listAt(12, VARIABLE),
});

const withSpec = { cell: CELL, spec: objectAt(4, SPEC) };

const CALL: UnionShape<VendorCall> = union<VendorCall>("VendorCall", {
  describe: { tag: 1, fields: {} },
  create: { tag: 2, fields: withSpec },
  get: { tag: 3, fields: withSpec },
  hibernate: { tag: 4, fields: { cell: CELL } },
  delete: { tag: 5, fields: { cell: CELL } },
});

const BOUNDARIES = { none: 1, process: 2, cell: 3 } as const;

const REPORT: UnionShape<Report> = union<Report>("VendorReport", {
  requested: { tag: 1, fields: {} },
  starting: { tag: 2, fields: {} },
  provisioning: { tag: 3, fields: {} },
  stopping: { tag: 4, fields: {} },
  stopped: { tag: 5, fields: {} },
  gone: { tag: 6, fields: {} },
  ready: {
    tag: 7,
    fields: { generation: u64At(8), spool: textAt(16), boundary: codeAt<Boundary>(1, BOUNDARIES) },
  },
  failed: { tag: 8, fields: { fault: objectAt(4, FAULT) } },
  refused: { tag: 9, fields: { fault: objectAt(4, FAULT) } },
  described: { tag: 10, fields: { vendor: textAt(8), workspaces: textsAt(16) } },
});

const NAME: StructShape<CellName> = struct<CellName>("CellName", {
  generation: u64At(0),
  cell: CELL,
});

export const encodeCall = (call: VendorCall): Uint8Array => encodeShape(CALL, call);
export const decodeCall = (bytes: Uint8Array): Result<VendorCall> => readAs(CALL, bytes);
export const encodeReport = (report: Report): Uint8Array => encodeShape(REPORT, report);
export const decodeReport = (bytes: Uint8Array): Result<Report> => readAs(REPORT, bytes);
export const encodeName = (name: CellName): Uint8Array => encodeShape(NAME, name);
export const decodeName = (bytes: Uint8Array): Result<CellName> => readAs(NAME, bytes);

export function wireSpecOf({ workspace, limits, variables }: CellSpec): WireSpec {
  const list = Object.entries(variables).map(([name, value]) => ({ name, value }));
  return { workspace, limits, variables: list };
}

export function specOf(wire: WireSpec, workspace: string): CellSpec {
  const variables = Object.fromEntries(wire.variables.map(({ name, value }) => [name, value]));
  return { ...wire, workspace, variables };
}
