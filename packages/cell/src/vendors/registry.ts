import { join } from "node:path";
import { fail, fault, ok, type Result } from "@dev/protocol";
import type { Vendor } from "../vendor.ts";
import { bubblewrapVendor } from "./bubblewrap.ts";
import { type ContainerOptions, containerVendor } from "./container.ts";
import { type BundleOptions, gvisorVendor, runcVendor } from "./gvisor.ts";
import { type KubernetesOptions, kubernetesVendor } from "./kubernetes.ts";
import { type Confinement, type LocalOptions, localVendor } from "./local.ts";

/** What every kind of cell on this machine is made from. */
export type VendorOptions = LocalOptions & BundleOptions & ContainerOptions & KubernetesOptions;

/** What a person may choose of the kinds that another program runs. */
export type CellPrograms = Pick<VendorOptions, "runsc" | "runc" | "container" | "kubernetes">;

/** A vendor; one whose boundary depends on the machine says what it would be, and why no stronger. */
export type OfferedVendor = Vendor & { readonly confinement?: () => Promise<Confinement> };

/** Every kind of cell. A new one is a file beside this, and a line here. */
export const VENDORS: Readonly<
  Record<string, (options: VendorOptions, signal: AbortSignal) => OfferedVendor>
> = {
  bubblewrap: bubblewrapVendor,
  container: containerVendor,
  gvisor: gvisorVendor,
  kubernetes: kubernetesVendor,
  runc: runcVendor,
  local: localVendor,
};

/** The vendor of that name, with a directory of its own below `options.home`. */
export function openVendor(
  name: string,
  options: VendorOptions,
  signal: AbortSignal,
): Result<OfferedVendor> {
  const open = Object.hasOwn(VENDORS, name) ? VENDORS[name] : undefined;
  if (open === undefined) {
    const known = Object.keys(VENDORS).join(", ");
    return fail(fault("config", "no such kind of cell", name, `one of: ${known}`));
  }
  return ok(open({ ...options, home: join(options.home, name) }, signal));
}
