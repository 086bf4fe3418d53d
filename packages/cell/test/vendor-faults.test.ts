import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chmodSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CellId } from "@dev/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { CellSpec, Observation, Vendor } from "../src/vendor.ts";
import type { VendorOptions } from "../src/vendors/registry.ts";
import {
  acquired,
  atEnd,
  driverApart,
  driverHere,
  linkOf,
  newId,
  noRuntime,
  optionsIn,
  processesOf,
  ran,
  runsc,
  specIn,
  temporary,
  until,
} from "./machine.ts";

/** What a substrate does in place of what it is asked. */
type Misdeed =
  /** It does as it is asked. */
  | "none"
  /** It refuses to start anything, or to end anything. */
  | "refuses to start"
  | "refuses to end"
  /** It says that it has done it, and has not. */
  | "starts nothing"
  | "ends nothing"
  /** It names somebody else's process as the cell's. */
  | "lies"
  /** It is killed when the container has begun. */
  | "dies"
  /** It does nothing until it is let go. */
  | "is slow";

/** A real runtime behind a program that misbehaves as it is told. */
type Substrate = {
  readonly vendor: string;
  readonly options: VendorOptions;
  readonly spec: CellSpec;
  readonly open: () => Vendor;
  readonly will: (misdeed: Misdeed) => void;
  readonly letGo: () => void;
  readonly bystander: ChildProcess;
};

const RUNTIMES = [
  { vendor: "runc", binary: "runc", key: "runc" },
  { vendor: "container", binary: "podman", key: "container" },
  { vendor: "gvisor", binary: runsc, key: "runsc" },
] as const;

function substrate({ vendor, binary, key }: (typeof RUNTIMES)[number]): Substrate {
  const base = temporary();
  const real = execFileSync("sh", ["-c", `command -v ${binary}`], { encoding: "utf8" }).trim();
  const bystander = spawn("sleep", ["600"], { stdio: "ignore", env: {} });
  atEnd(() => void bystander.kill("SIGKILL"));
  const [double, misdeed, go] = ["double", "misdeed", "go"].map((name) => join(base, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(double, doubleOf({ real, misdeed, go, bystander: bystander.pid ?? 0 }));
  chmodSync(double, 0o755);
  const will = (what: Misdeed): void => writeFileSync(misdeed, what);
  will("none");
  const options = optionsIn(base, { [key]: { binary: double } });
  return {
    vendor,
    options,
    spec: specIn(base),
    open: () => driverHere(vendor, options).vendor,
    will,
    letGo: () => writeFileSync(go, ""),
    bystander,
  };
}

type Double = {
  readonly real: string;
  readonly misdeed: string;
  readonly go: string;
  readonly bystander: number;
};

function doubleOf({ real, misdeed, go, bystander }: Double): string {
  return `#!/bin/sh
verb=other pidfile= before=
for word in "$@"; do
  case "$word" in run) verb=start ;; delete|rm) verb=end ;; esac
  case "$before" in --pid-file|--pidfile) pidfile=$word ;; esac
  before=$word
done
case "$(cat ${misdeed}):$verb" in
  "refuses to start:start"|"refuses to end:end") echo "not today" >&2; exit 1 ;;
  "starts nothing:start"|"ends nothing:end") exit 0 ;;
  lies:start) echo ${bystander} > "$pidfile"; sleep 0.1; exit 0 ;;
  dies:start) ${real} "$@" & while [ ! -s "$pidfile" ]; do sleep 0.01; done; kill -9 $$ ;;
  "is slow:start") : > ${go}.waits; while [ ! -e ${go} ]; do sleep 0.01; done ;;
esac
exec ${real} "$@"
`;
}

/** Everything is well again: the cell starts, works, and can be deleted without a trace. */
async function expectMended(its: Substrate, vendor: Vendor, id: CellId): Promise<number> {
  its.will("none");
  const link = await linkOf((progress) => vendor.get(id, its.spec, progress));
  expect(await ran(link, "echo", "here")).toMatchObject({ code: 0, stdout: "here\n" });
  expect(await vendor.delete(id)).toEqual({ ok: true, value: { kind: "gone" } });
  expect(processesOf(id)).toEqual([]);
  expect(await vendor.get(id, its.spec, () => undefined)).toMatchObject({
    value: { kind: "gone" },
  });
  // Whatever was said of it.
  expect(its.bystander.exitCode ?? its.bystander.signalCode).toBe(null);
  return link.generation;
}

for (const runtime of RUNTIMES) {
  const missing = noRuntime(runtime.binary);
  const on = (sentence: string, holds: (its: Substrate) => Promise<void>): void =>
    test(`where a runtime of ${runtime.vendor} cells ${sentence}`, async (context) => {
      context.skip(missing !== undefined, `${missing}`);
      await holds(substrate(runtime));
    });

  for (const misdeed of ["refuses to start", "starts nothing", "lies"] as const) {
    on(
      `${misdeed}, the start fails, nothing is killed for it, and the next one works`,
      async (its) => {
        const vendor = its.open();
        const id = newId();
        its.will(misdeed);
        const { said, last } = await acquired((progress) => vendor.create(id, its.spec, progress));
        expect(said).toEqual(["starting", "failed"]);
        expect(last).toMatchObject({ fault: { code: "unavailable" } });
        if (misdeed === "refuses to start" && last.kind === "failed") {
          expect(last.fault.message).toContain("not today");
        }
        // It could not be had; it is not gone.
        expect(await vendor.hibernate(id)).toMatchObject({ value: { kind: "stopped" } });
        expect(await expectMended(its, vendor, id)).toBe(2);
      },
    );
  }

  on("dies in mid-create, what it began is ended before the next generation", async (its) => {
    const vendor = its.open();
    const id = newId();
    its.will("dies");
    const { last } = await acquired((progress) => vendor.create(id, its.spec, progress));
    // The container may have come up before its runtime died, and then ends for that.
    if (last.kind === "ready") await until(() => processesOf(id).length === 0);
    else expect(last).toMatchObject({ kind: "failed", fault: { code: "unavailable" } });
    expect(await expectMended(its, vendor, id)).toBe(2);
  });

  on("is slow, a cell that is deleted meanwhile does not come up", async (its) => {
    const vendor = its.open();
    const id = newId();
    its.will("is slow");
    const starting = acquired((progress) => vendor.create(id, its.spec, progress));
    await until(() => existsSync(join(its.options.home, "..", "go.waits")));
    expect(await vendor.delete(id)).toEqual({ ok: true, value: { kind: "gone" } });
    its.letGo();
    expect((await starting).said).toEqual(["starting", "failed"]);
    expect(processesOf(id)).toEqual([]);
  });

  on("is slow and its driver is killed, the next driver starts the cell", async (its) => {
    const id = newId();
    its.will("is slow");
    const first = driverApart(its.vendor, its.options);
    void first.vendor.create(id, its.spec, () => undefined);
    await until(() => existsSync(join(its.options.home, "..", "go.waits")));
    await first.kill();
    its.letGo();
    expect(await expectMended(its, its.open(), id)).toBe(2);
  });

  on("refuses to end, a cell is not said to be gone", async (its) => {
    const vendor = its.open();
    const id = newId();
    await linkOf((progress) => vendor.create(id, its.spec, progress));
    its.will("refuses to end");
    expect(await vendor.delete(id)).toMatchObject({
      ok: false,
      fault: { code: "unavailable", message: expect.stringContaining("not today") },
    });
    expect(processesOf(id)).toEqual([]);
    expect(await vendor.hibernate(id)).toMatchObject({ value: { kind: "stopped" } });
    expect(await expectMended(its, vendor, id)).toBe(2);
  });

  on("says that it has ended what it has not, its processes end all the same", async (its) => {
    const vendor = its.open();
    const id = newId();
    await linkOf((progress) => vendor.create(id, its.spec, progress));
    its.will("ends nothing");
    const deleted = await vendor.delete(id);
    expect(processesOf(id)).toEqual([]);
    if (deleted.ok) expect(deleted.value).toEqual({ kind: "gone" });
    else expect(deleted.fault.code).toBe("unavailable");
    its.will("none");
    expect(await vendor.delete(id)).toMatchObject({ value: { kind: "gone" } });
  });
}

const MISDEEDS: readonly Misdeed[] = [
  ...(["none", "none", "refuses to start", "refuses to end"] as const),
  ...(["starts nothing", "ends nothing", "lies", "dies"] as const),
];

type Step = { readonly misdeed: Misdeed; readonly call: "get" | "look" | "close" | "new driver" };

const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.record({
    misdeed: fc.constantFrom(...MISDEEDS),
    call: fc.constantFrom<Step["call"]>("get", "get", "look", "close", "new driver"),
  }),
  { minLength: 1, maxLength: 6 },
);

test("whatever a runtime does, generations only rise, and a cell can be had and deleted in the end", async (context) => {
  const [runtime] = RUNTIMES;
  const missing = noRuntime(runtime.binary);
  context.skip(missing !== undefined, `${missing}`);
  await fc.assert(
    fc.asyncProperty(steps, async (taken) => {
      const its = substrate(runtime);
      let vendor = its.open();
      const id = newId();
      let last: Observation = (await acquired((progress) => vendor.create(id, its.spec, progress)))
        .last;
      let generation = 0;
      for (const { misdeed, call } of taken) {
        its.will(misdeed);
        if (call === "look") await vendor.hibernate(id);
        if (call === "close" && last.kind === "ready") await last.link.close();
        if (call === "new driver") {
          if (last.kind === "ready") await last.link.close();
          vendor = its.open();
        }
        if (call !== "get") continue;
        last = (await acquired((progress) => vendor.get(id, its.spec, progress))).last;
        if (last.kind === "ready") {
          expect(last.link.generation).toBeGreaterThanOrEqual(generation);
          generation = last.link.generation;
        } else expect(last).toMatchObject({ kind: "failed", fault: { code: "unavailable" } });
      }
      expect(await expectMended(its, vendor, id)).toBeGreaterThanOrEqual(generation);
    }),
    { numRuns: 8 },
  );
}, 300_000);
