import { readlinkSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type Action,
  actionId,
  type CellId,
  cellId,
  type Fault,
  fail,
  fault,
  ok,
  type Result,
  ROOT_AGENT,
  turnId,
} from "@dev/protocol";
import type { Boundary, CellLimits, CellSpec, Link, Observation, Vendor } from "./vendor.ts";
import type { OfferedVendor } from "./vendors/registry.ts";

/** Whether a kind of cell works on this machine, now. */
export type CellReport =
  | {
      readonly kind: "works";
      readonly vendor: string;
      readonly boundary: Boundary;
      readonly startMs: number;
      /** Why the boundary is no stronger than it is, and how to mend that. */
      readonly weaker: Fault | undefined;
    }
  | { readonly kind: "missing"; readonly vendor: string; readonly fault: Fault };

export type ProbeChance = {
  readonly nowMs: () => number;
  readonly random: (byteCount: number) => Uint8Array;
};

/**
 * Tries each kind of cell: starts one, runs something in it, looks at whether its boundary is what the
 * link says, and deletes it. That a program is installed says nothing, so nothing else is asked. Takes
 * some 200 ms a kind; whoever asks may keep the answer.
 */
export async function probeCells(
  vendors: readonly OfferedVendor[],
  chance: ProbeChance,
  signal: AbortSignal,
): Promise<readonly CellReport[]> {
  const reports: CellReport[] = [];
  for (const vendor of vendors) reports.push(await probeCell(vendor, chance, signal));
  return reports;
}

const PROBE_LIMITS: CellLimits = {
  commandTimeoutMs: 10_000,
  outputBytes: 64 * 1024,
  processCount: 64,
  openFileCount: 256,
  fileBytes: 1024 * 1024,
  memoryBytes: 1024 * 1024 * 1024,
  diskBytes: 64 * 1024 * 1024,
};

async function probeCell(
  vendor: OfferedVendor,
  chance: ProbeChance,
  signal: AbortSignal,
): Promise<CellReport> {
  const workspace = await mkdtemp(join(tmpdir(), "dev-probe-"));
  const id = cellId(chance.nowMs(), chance.random(10));
  const report = await tryCell(vendor, id, workspace, chance, signal);
  const deleted = await vendor.delete(id);
  await rm(workspace, { recursive: true, force: true });
  // A kind whose cells cannot be ended is not one to start sessions on.
  return deleted.ok || report.kind === "missing" ? report : missing(vendor, deleted.fault);
}

async function tryCell(
  vendor: OfferedVendor,
  id: CellId,
  workspace: string,
  chance: ProbeChance,
  signal: AbortSignal,
): Promise<CellReport> {
  const startedMs = chance.nowMs();
  const link = await readyLink(vendor, id, { workspace, variables: {}, limits: PROBE_LIMITS });
  if (!link.ok) return missing(vendor, link.fault);
  const startMs = chance.nowMs() - startedMs;
  const { boundary } = link.value;
  const checked = await check(link.value, signal);
  if (!checked.ok) return missing(vendor, checked.fault);
  const confinement = boundary === "none" ? await vendor.confinement?.() : undefined;
  const weaker = confinement?.kind === "none" ? confinement.why : undefined;
  return { kind: "works", vendor: vendor.name, boundary, startMs, weaker };
}

function missing(vendor: Vendor, why: Fault): CellReport {
  return { kind: "missing", vendor: vendor.name, fault: why };
}

async function readyLink(vendor: Vendor, id: CellId, spec: CellSpec): Promise<Result<Link>> {
  let settle: (observation: Observation) => void = () => undefined;
  const settled = new Promise<Observation>((resolve) => {
    settle = resolve;
  });
  const first = await vendor.create(id, spec, (observation) => {
    if (observation.kind === "ready" || observation.kind === "failed") settle(observation);
  });
  if (!first.ok) return first;
  const last = first.value.kind === "ready" ? first.value : await settled;
  if (last.kind === "ready") return ok(last.link);
  return fail(last.kind === "failed" ? last.fault : fault("unavailable", `it is ${last.kind}`, id));
}

/** Runs a command; where there is a boundary, the command tells how the kernel sees it. */
async function check(link: Link, signal: AbortSignal): Promise<Result<undefined>> {
  const argv = link.boundary === "none" ? ["true"] : ["sh", "-c", TOLD_BY];
  const answer = await link.perform(commandOf(argv), () => undefined, signal);
  if (!answer.ok) return answer;
  const { outcome } = answer.value;
  if (outcome.kind === "failed") return fail(outcome.fault);
  if (outcome.kind !== "ok" || outcome.result.kind !== "exec") {
    return fail(fault("unavailable", `a command in the cell: ${outcome.kind}`, argv.join(" ")));
  }
  const { end, stdout, stderr } = outcome.result;
  if (end.kind !== "exit" || end.code !== 0) {
    const mend =
      "where it is gVisor's, its kernel may be older than your programs: take a newer one";
    const message = `a command in the cell failed: ${stderr}`;
    return fail(fault("unavailable", message, argv.join(" "), mend));
  }
  return link.boundary === "none" ? ok(undefined) : checkBoundary(stdout);
}

/** `ls` first: it fails in a kernel that is older than the machine's programs. */
const TOLD_BY =
  "ls -l / > /dev/null && cat /proc/self/status /proc/self/net/dev && readlink /proc/self/ns/pid";

const CLAIMS: readonly { readonly what: string; readonly holds: (told: string) => boolean }[] = [
  { what: "system calls are filtered", holds: (told) => /^Seccomp:\s+2$/m.test(told) },
  // gVisor has no such line; that there is no capability at all holds there as well.
  { what: "no program can gain privileges", holds: (told) => !/^NoNewPrivs:\s+0$/m.test(told) },
  { what: "there is no capability", holds: (told) => /^CapEff:\s+0+$/m.test(told) },
  { what: "its processes are apart", holds: areProcessesApart },
  { what: "there is no network", holds: (told) => interfacesOf(told).every((one) => one === "lo") },
];

/** Whatever process 1 of a cell is called: what it counts its processes in is not what this one is counted in. */
function areProcessesApart(told: string): boolean {
  const namespace = /^pid:\[\d+\]$/m.exec(told)?.[0];
  return namespace !== undefined && namespace !== readlinkSync("/proc/self/ns/pid");
}

function interfacesOf(told: string): readonly string[] {
  return [...told.matchAll(/^\s*([\w.@-]+):(?:\s+\d+){16}\s*$/gm)].map((match) => match[1] ?? "");
}

function checkBoundary(told: string): Result<undefined> {
  const broken = CLAIMS.filter((claim) => !claim.holds(told)).map((claim) => claim.what);
  if (broken.length === 0) return ok(undefined);
  return fail(
    fault("unavailable", `a cell started, but it does not hold that ${broken.join(", that ")}`),
  );
}

function commandOf(argv: readonly string[]): Action {
  return {
    id: actionId(1),
    agent: ROOT_AGENT,
    turn: turnId(1),
    op: { kind: "exec", argv, cwd: ".", env: [], stdin: "", timeoutMs: 0, background: false },
  };
}
