import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type CellId, ok, type Result } from "@dev/protocol";
import type { Clock } from "../src/agent/clock.ts";
import { type Dialler, dialler } from "../src/dial.ts";
import { OWN_WORKSPACE } from "../src/vendors/call.ts";
import { type Outpost, outpost } from "../src/vendors/outpost.ts";
import { openVendor, type VendorOptions } from "../src/vendors/registry.ts";

/** A vendor of this machine that a host reaches over WebSocket; run as a program, one that can be killed. */
export type Posted = {
  readonly vendor: string;
  readonly options: VendorOptions;
  readonly url: string;
  readonly name: string;
  readonly token: string;
};

export function posted(
  { vendor: kind, options, url, name, token }: Posted,
  signal: AbortSignal,
): { readonly dial: Dialler; readonly outpost: Outpost } {
  const vendor = openVendor(kind, options, signal);
  if (!vendor.ok) throw new Error(vendor.fault.message);
  return {
    dial: dialler({
      server: new URL(url),
      readToken: async () => ok(token),
      headers: {
        "dev-instance": randomBytes(8).toString("hex"),
        "dev-name": name,
        "dev-label": "tests",
      },
      clock,
      random: Math.random,
      onTrouble: () => undefined,
    }),
    outpost: outpost({
      vendor: vendor.value,
      description: { vendor: kind, workspaces: [] },
      // One machine: what a directory is called here is what it is called there.
      workspaceOf: (asked, cell) => (asked === OWN_WORKSPACE ? ownOf(options, cell) : ok(asked)),
      onCall: () => undefined,
      onLink: () => undefined,
    }),
  };
}

function ownOf({ home }: VendorOptions, cell: CellId): Result<string> {
  const directory = join(home, "own", cell);
  mkdirSync(directory, { recursive: true });
  return ok(directory);
}

const clock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      signal?.addEventListener("abort", () => {
        clearTimeout(timer);
        resolve();
      });
    }),
};

const [, , asked] = process.argv;
if (asked?.startsWith("{") === true) {
  const { dial, outpost: post } = posted(JSON.parse(asked), new AbortController().signal);
  const why = await post.serve(dial, new AbortController().signal);
  process.stderr.write(`${why.message}\n`);
}
