import type { Duplex } from "node:stream";
import { type CellId, fail, fault, ok, type Result } from "@dev/protocol";
import type { LinkHandlers } from "../link.ts";
import type { Boundary, CellSpec } from "../vendor.ts";
import type { Opening } from "../wire.ts";
import { Egress } from "./egress.ts";
import type { EgressSeams } from "./ground.ts";

/** A cell's network as its link has it: what the agent is told, and what its channels come to. */
export type LinkNetwork = {
  readonly opening: Pick<Opening, "hasNetwork" | "certificates">;
  readonly handlers: LinkHandlers;
  close(): void;
};

/**
 * Opens the network that a spec asks for. Where nothing confines the cell's commands they have the machine's
 * own, and rules would only seem to hold: then there is no proxy. Faults: `config`, `unsupported`.
 */
export async function linkNetwork(
  cell: CellId,
  { network }: CellSpec,
  boundary: Boundary,
  seams: EgressSeams | undefined,
): Promise<Result<LinkNetwork>> {
  if (network === undefined || network.allow.length === 0 || boundary === "none") return ok(NONE);
  if (seams === undefined) {
    return fail(fault("unsupported", "this vendor gives its cells no network", cell));
  }
  const egress = await Egress.open(cell, network, seams);
  if (!egress.ok) return egress;
  const { certificates } = egress.value;
  return ok({
    opening: { hasNetwork: true, certificates },
    handlers: {
      onChannel: (kind: string, _: Uint8Array, stream: Duplex) => {
        if (kind === "egress") egress.value.serve(stream);
        else stream.destroy(new Error(`a channel ${kind} is not served here`));
      },
    },
    close: () => egress.value.close(),
  });
}

const NONE: LinkNetwork = {
  opening: { hasNetwork: false, certificates: "" },
  handlers: {},
  close: () => undefined,
};
