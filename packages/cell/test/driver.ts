import { createInterface } from "node:readline";
import type { Action, CellId } from "@dev/protocol";
import type { CellSpec, Link, Observation } from "../src/vendor.ts";
import { openVendor, type VendorOptions } from "../src/vendors/registry.ts";

/** A process that owns a vendor, so that a test can be its operator: kill it, or run it as nobody. */
export type Call =
  | { readonly call: "create" | "get"; readonly id: CellId; readonly spec: CellSpec }
  | { readonly call: "hibernate" | "delete"; readonly id: CellId }
  | { readonly call: "perform"; readonly link: number; readonly action: Action }
  | { readonly call: "close"; readonly link: number };

export type Told = { readonly seq: number; readonly kind: "answer" | "progress"; value: unknown };

const [, , name = "", options = ""] = process.argv;
const vendor = openVendor(name, JSON.parse(options) as VendorOptions, new AbortController().signal);
if (!vendor.ok) throw new Error(vendor.fault.message);
const source = vendor.value;
const links: Link[] = [];

createInterface({ input: process.stdin }).on("line", (line) => {
  const { seq, ...call } = JSON.parse(line) as Call & { readonly seq: number };
  answer(seq, call).then((value) => tell({ seq, kind: "answer", value }), fatal);
});

async function answer(seq: number, call: Call): Promise<unknown> {
  switch (call.call) {
    case "create":
    case "get": {
      const observed = await source[call.call](call.id, call.spec, (observation) =>
        tell({ seq, kind: "progress", value: shown(observation) }),
      );
      return observed.ok ? { ...observed, value: shown(observed.value) } : observed;
    }
    case "hibernate":
    case "delete": {
      const observed = await source[call.call](call.id);
      return observed.ok ? { ...observed, value: shown(observed.value) } : observed;
    }
    case "perform":
      return links[call.link]?.perform(call.action, () => undefined, new AbortController().signal);
    case "close":
      return links[call.link]?.close();
  }
}

/** A link stays here; its number and its facts go out. */
function shown(observation: Observation): unknown {
  if (observation.kind !== "ready") return observation;
  const { link } = observation;
  const known = links.indexOf(link);
  const number = known >= 0 ? known : links.push(link) - 1;
  const { cell, generation, boundary, spool } = link;
  return { kind: "ready", link: { number, cell, generation, boundary, spool } };
}

function tell(told: Told): void {
  process.stdout.write(`${JSON.stringify(told)}\n`);
}

function fatal(error: unknown): void {
  process.stderr.write(`${String(error)}\n`);
  process.exit(1);
}
