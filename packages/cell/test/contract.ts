import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import type { CellId } from "@dev/protocol";
import { expect, test } from "vitest";
import { openPty } from "../src/pty.ts";
import type { Boundary, CellSpec, Vendor } from "../src/vendor.ts";
import { isAlive } from "../src/vendors/process.ts";
import { directoryOf, readRecord } from "../src/vendors/record.ts";
import type { VendorOptions } from "../src/vendors/registry.ts";
import {
  acquired,
  agentOf,
  type Driver,
  driverApart,
  driverHere,
  execAction,
  linkOf,
  newId,
  optionsIn,
  perform,
  processesOf,
  ran,
  ranOf,
  specIn,
  temporary,
  until,
} from "./machine.ts";
import { listening } from "./network.ts";

const NEVER: AbortSignal = new AbortController().signal;

/** One way to have cells, as the contract sees it. */
export type Subject = {
  /** What it is, for the tests' names. */
  readonly title: string;
  /** The vendor's name in the registry. */
  readonly vendor: string;
  readonly boundary: Boundary;
  readonly options?: Partial<VendorOptions>;
  /** The user of this machine that drives it; without one, whoever runs the tests. */
  readonly uid?: number;
  /** Its processes are the machine's, unless it has a kernel of its own. */
  readonly kernel?: "own";
  readonly skip: string | undefined;
  /** Promises that its cells cannot keep, by their sentences, and why: what holds instead has tests of its own. */
  readonly except?: Readonly<Record<string, string>>;
  /** Where the workspace of a cell that is not near is seen; by default it is the spec's. */
  readonly workspaceOf?: (id: CellId) => string;
  /** Who asks the vendor, where it is not asked by its name in this process and in others. */
  readonly drivers?: (options: VendorOptions) => Drivers;
};

export type Drivers = { readonly here: Driver; readonly apart: () => Driver };

/** What every vendor promises, whatever its cells are made of. */
export function vendorContract(subject: Subject): void {
  const base = temporary(subject.uid);
  const options = optionsIn(base, subject.options);
  const { here, apart } = subject.drivers?.(options) ?? driversOf(subject, options);
  const ground: Ground = {
    subject,
    home: join(options.home, subject.vendor),
    vendor: here.vendor,
    spec: () => specIn(base, {}, subject.uid),
    apart,
  };
  const promises = subject.uid === undefined ? [...PROMISES, ...NEAR_PROMISES] : PROMISES;
  const sentences = promises.map(([sentence]) => sentence);
  const strays = Object.keys(subject.except ?? {}).filter((one) => !sentences.includes(one));
  if (strays.length > 0) throw new Error(`no promise of the contract: ${strays.join("; ")}`);
  for (const [sentence, holds] of promises) {
    test(`${subject.title}: ${sentence}`, (context) => {
      const why = subject.skip ?? subject.except?.[sentence];
      context.skip(why !== undefined, `${why}`);
      return holds(ground);
    });
  }
}

function driversOf({ uid, vendor }: Subject, options: VendorOptions): Drivers {
  const apart = (): Driver => driverApart(vendor, options, uid);
  return { here: uid === undefined ? driverHere(vendor, options) : apart(), apart };
}

/** What a promise is tried on. */
type Ground = {
  readonly subject: Subject;
  readonly home: string;
  readonly vendor: Vendor;
  /** Of a new workspace. */
  readonly spec: () => CellSpec;
  /** The same vendor in a new process. */
  readonly apart: () => Driver;
};

/** The process that is the cell, as its record has it. */
async function rootOf({ home, subject }: Ground, id: CellId): Promise<number> {
  const record = await readRecord(home, id, subject.vendor);
  const running = record.ok ? record.value?.running : undefined;
  if (running?.kind !== "started") throw new Error(`${id} is not running`);
  return running.root.pid;
}

type Promised = readonly [sentence: string, holds: (ground: Ground) => Promise<void>];

/** What answers on the loopback, on the machine's port and on one of the cell's own. */
const LOOPBACK = `
const { connect, createServer } = require("node:net");
const ask = (port) => new Promise((resolve) => {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", (error) => resolve(error.code));
  socket.on("data", (chunk) => resolve(String(chunk)));
});
const server = createServer((socket) => socket.end("the cell's")).listen(0, "127.0.0.1", async () => {
  console.log(await ask(+process.argv[1]));
  console.log(await ask(server.address().port));
  process.exit();
});
`;

const PROMISES: readonly Promised[] = [
  [
    "a new cell comes up, and its commands work in the workspace",
    async ({ spec, subject, vendor }) => {
      const id = newId();
      const its = spec();
      const { said, last } = await acquired((progress) => vendor.create(id, its, progress));
      expect(said).toEqual(["starting", "ready"]);
      if (last.kind !== "ready") throw new Error(last.kind);
      const { cell, generation, boundary } = last.link;
      expect({ cell, generation, boundary }).toEqual({
        cell: id,
        generation: 1,
        boundary: subject.boundary,
      });
      expect(await ran(last.link, "sh", "-c", "printf here > made && cat made")).toMatchObject({
        code: 0,
        stdout: "here",
      });
      const workspace = subject.workspaceOf?.(id) ?? its.workspace;
      expect(readFileSync(join(workspace, "made"), "utf8")).toBe("here");
      await vendor.delete(id);
    },
  ],
  [
    "what listens in a cell is reached in it, and what listens on the machine is not",
    async ({ spec, subject, vendor }) => {
      const id = newId();
      const port = await listening(createServer((socket) => socket.end("the machine's")));
      const link = await linkOf((progress) => vendor.create(id, spec(), progress));
      const said = await ran(link, "node", "-e", LOOPBACK, String(port));
      // Without a boundary the machine's network is the cell's.
      const outside = subject.boundary === "none" ? /^the machine's\n/ : /^E[A-Z]+\n/;
      expect(said.stdout).toMatch(outside);
      expect(said.stdout).toMatch(/\nthe cell's\n$/);
      await vendor.delete(id);
    },
  ],
  [
    "readiness is a level: who asks again is told ready, of the same generation",
    async ({ spec, vendor }) => {
      const id = newId();
      const its = spec();
      const link = await linkOf((progress) => vendor.create(id, its, progress));
      for (let again = 0; again < 2; again++) {
        const { said, last } = await acquired((progress) => vendor.get(id, its, progress));
        expect(said).toEqual(["ready"]);
        expect(last.kind === "ready" && last.link.generation).toBe(link.generation);
      }
      await vendor.delete(id);
    },
  ],
  [
    "hibernating is declined with what the cell is doing",
    async ({ spec, vendor }) => {
      const id = newId();
      const link = await linkOf((progress) => vendor.create(id, spec(), progress));
      expect(await vendor.hibernate(id)).toMatchObject({ ok: true, value: { kind: "ready" } });
      expect(await ran(link, "true")).toMatchObject({ code: 0 });
      await vendor.delete(id);
    },
  ],
  [
    "an id that the vendor does not know is gone, whatever is asked of it",
    async ({ spec, vendor }) => {
      const gone = { ok: true, value: { kind: "gone" } };
      expect(await vendor.get(newId(), spec(), () => undefined)).toEqual(gone);
      expect(await vendor.hibernate(newId())).toEqual(gone);
      expect(await vendor.delete(newId())).toEqual(gone);
    },
  ],
  [
    "a second create of an id is refused, and the first cell lives on",
    async ({ spec, vendor }) => {
      const id = newId();
      const link = await linkOf((progress) => vendor.create(id, spec(), progress));
      const second = await vendor.create(id, spec(), () => undefined);
      expect(second).toMatchObject({ ok: false, fault: { code: "exists", subject: id } });
      expect(await ran(link, "true")).toMatchObject({ code: 0 });
      await vendor.delete(id);
    },
  ],
  [
    "a closed cell starts again as the next generation, and its old link is dead",
    async ({ spec, vendor }) => {
      const id = newId();
      const its = spec();
      const old = await linkOf((progress) => vendor.create(id, its, progress));
      await old.close();
      const link = await linkOf((progress) => vendor.get(id, its, progress));
      expect([old.generation, link.generation]).toEqual([1, 2]);
      expect(link.spool).toBe(old.spool);
      expect(await perform(old, execAction(["true"]))).toMatchObject({
        ok: false,
        fault: { code: "link_lost" },
      });
      expect(await ran(link, "true")).toMatchObject({ code: 0 });
      await vendor.delete(id);
    },
  ],
  [
    "two who ask at once for a stopped cell share one start",
    async ({ spec, vendor }) => {
      const id = newId();
      const its = spec();
      await (await linkOf((progress) => vendor.create(id, its, progress))).close();
      const links = await Promise.all([
        linkOf((progress) => vendor.get(id, its, progress)),
        linkOf((progress) => vendor.get(id, its, progress)),
      ]);
      expect(links.map((link) => link.generation)).toEqual([2, 2]);
      await vendor.delete(id);
    },
  ],
  [
    "an agent that is killed loses its link at once, and the next has its spool",
    async (ground) => {
      const { spec, subject, vendor } = ground;
      const id = newId();
      const its = spec();
      const old = await linkOf((progress) => vendor.create(id, its, progress));
      const running = perform(old, execAction(["sh", "-c", "touch began; exec sleep 600"]));
      await until(() => existsSync(join(its.workspace, "began")));
      const before = processesOf(id);
      const agent = subject.kernel === "own" ? await rootOf(ground, id) : agentOf(id);
      process.kill(agent, "SIGKILL");
      expect(await running).toMatchObject({ ok: false, fault: { code: "link_lost" } });
      const link = await linkOf((progress) => vendor.get(id, its, progress));
      expect([link.generation, link.spool]).toEqual([2, old.spool]);
      expect(processesOf(id).filter((pid) => before.includes(pid))).toEqual([]);
      await vendor.delete(id);
    },
  ],
  [
    "a cell that kills all that it can reach is a lost link, and starts again",
    async ({ spec, subject, vendor }) => {
      const id = newId();
      const its = spec();
      const old = await linkOf((progress) => vendor.create(id, its, progress));
      expect(old.boundary).toBe(subject.boundary);
      // Without a boundary "all" would be this machine's: there it is the agent alone.
      const kills = old.boundary === "none" ? "kill -9 $PPID" : "kill -9 -1";
      expect(await perform(old, execAction(["sh", "-c", `${kills}; sleep 600`]))).toMatchObject({
        ok: false,
        fault: { code: "link_lost" },
      });
      const link = await linkOf((progress) => vendor.get(id, its, progress));
      expect([link.generation, link.spool]).toEqual([2, old.spool]);
      expect(await ran(link, "true")).toMatchObject({ code: 0 });
      await vendor.delete(id);
    },
  ],
  [
    "a cell whose spool is lost says so by a new identity",
    async ({ home, spec, vendor }) => {
      const id = newId();
      const its = spec();
      const old = await linkOf((progress) => vendor.create(id, its, progress));
      await old.close();
      await until(() => processesOf(id).length === 0);
      rmSync(directoryOf(home, id).spool, { recursive: true });
      const link = await linkOf((progress) => vendor.get(id, its, progress));
      expect(link.spool).not.toBe(old.spool);
      await vendor.delete(id);
    },
  ],
  [
    "deleting leaves no process and no directory, and spares the workspace",
    async ({ home, spec, subject, vendor }) => {
      const id = newId();
      const its = spec();
      const link = await linkOf((progress) => vendor.create(id, its, progress));
      await ran(link, "sh", "-c", "setsid sleep 600 < /dev/null > /dev/null 2>&1 & echo > kept");
      await perform(link, execAction(["sleep", "600"], { background: true }));
      const record = await readRecord(home, id, subject.vendor);
      const running = record.ok ? record.value?.running : undefined;
      expect(running?.kind).toBe("started");
      expect(processesOf(id).length).toBeGreaterThan(1);
      expect(await vendor.delete(id)).toEqual({ ok: true, value: { kind: "gone" } });
      expect(running?.kind === "started" && (await isAlive(running.root))).toBe(false);
      expect(processesOf(id)).toEqual([]);
      expect(existsSync(directoryOf(home, id).path)).toBe(false);
      expect(existsSync(join(its.workspace, "kept"))).toBe(true);
      expect(await vendor.get(id, its, () => undefined)).toMatchObject({ value: { kind: "gone" } });
    },
  ],
  [
    "a cell that is deleted while it starts does not come up",
    async ({ home, spec, vendor }) => {
      const id = newId();
      const starting = acquired((progress) => vendor.create(id, spec(), progress));
      await until(() => existsSync(directoryOf(home, id).record));
      expect(await vendor.delete(id)).toEqual({ ok: true, value: { kind: "gone" } });
      expect((await starting).said[0]).toBe("starting");
      expect(processesOf(id)).toEqual([]);
      expect(existsSync(directoryOf(home, id).path)).toBe(false);
    },
  ],
  [
    "a directory without a record of its cell is not deleted",
    async ({ home, spec, vendor }) => {
      const id = newId();
      const other = newId();
      await linkOf((progress) => vendor.create(other, spec(), progress));
      mkdirSync(directoryOf(home, id).path, { recursive: true });
      writeFileSync(join(directoryOf(home, id).path, "precious"), "");
      expect(await vendor.delete(id)).toMatchObject({ ok: false, fault: { code: "corrupt" } });
      // A record of another cell is no proof either.
      writeFileSync(directoryOf(home, id).record, readFileSync(directoryOf(home, other).record));
      expect(await vendor.delete(id)).toMatchObject({ ok: false, fault: { code: "corrupt" } });
      expect(existsSync(join(directoryOf(home, id).path, "precious"))).toBe(true);
      await vendor.delete(other);
    },
  ],
  [
    "a start that failed is tried again, not remembered",
    async ({ spec, vendor }) => {
      const id = newId();
      const its = spec();
      rmSync(its.workspace, { recursive: true });
      const { said, last } = await acquired((progress) => vendor.create(id, its, progress));
      expect(said).toEqual(["starting", "failed"]);
      expect(last).toMatchObject({ fault: { code: "unavailable", subject: its.workspace } });
      const mended = { ...its, workspace: spec().workspace };
      const link = await linkOf((progress) => vendor.get(id, mended, progress));
      expect(await ran(link, "true")).toMatchObject({ code: 0 });
      await vendor.delete(id);
    },
  ],
  [
    "a command outlives its driver, and the next driver has what came of it",
    async ({ apart, spec }) => {
      const id = newId();
      const its = spec();
      const first = apart();
      const old = await linkOf((progress) => first.vendor.create(id, its, progress));
      const script = "echo x >> runs; while ! [ -e go ]; do sleep 0.02; done; echo came to an end";
      const action = execAction(["sh", "-c", script]);
      void perform(old, action);
      await until(() => existsSync(join(its.workspace, "runs")));
      await first.kill();

      const next = apart();
      let waiting = false;
      const link = await linkOf(async (progress) => {
        const seen = await next.vendor.get(id, its, progress);
        waiting = seen.ok && seen.value.kind === "stopping";
        writeFileSync(join(its.workspace, "go"), "");
        return seen;
      });
      expect(waiting).toBe(true);
      expect([link.generation, link.spool]).toEqual([2, old.spool]);
      expect(ranOf(await perform(link, action)).stdout).toBe("came to an end\n");
      expect(readFileSync(join(its.workspace, "runs"), "utf8")).toBe("x\n");
      await next.vendor.delete(id);
      await next.kill();
    },
  ],
  [
    "deleting ends the wait for an earlier agent, and the agent",
    async ({ apart, home, spec }) => {
      const id = newId();
      const its = spec();
      const first = apart();
      const old = await linkOf((progress) => first.vendor.create(id, its, progress));
      void perform(old, execAction(["sh", "-c", "touch began; exec sleep 600"]));
      await until(() => existsSync(join(its.workspace, "began")));
      await first.kill();

      const next = apart();
      const waiting = acquired((progress) => next.vendor.get(id, its, progress));
      await until(() => processesOf(id).length > 0);
      expect(await next.vendor.delete(id)).toEqual({ ok: true, value: { kind: "gone" } });
      expect(["stopping", "gone"]).toContain((await waiting).said[0]);
      expect(processesOf(id)).toEqual([]);
      expect(existsSync(directoryOf(home, id).path)).toBe(false);
      await next.kill();
    },
  ],
];

/** What is promised to whoever has the link in its own process. */
const NEAR_PROMISES: readonly Promised[] = [
  [
    "a terminal opens in the cell's workspace, and ends with the cell",
    async ({ spec, vendor }) => {
      const id = newId();
      const link = await linkOf((progress) => vendor.create(id, spec(), progress));
      const opening = { cwd: ".", columns: 91, rows: 17, variables: [] };
      const sized = { ...opening, argv: ["sh", "-c", "stty size; pwd; exit 3"] };
      const first = await openPty(link.open, sized, NEVER);
      if (!first.ok) throw new Error(first.fault.message);
      let text = "";
      first.value.onData((bytes) => {
        text += Buffer.from(bytes).toString();
      });
      expect(await first.value.ended).toMatchObject({ ok: true, value: { code: 3 } });
      expect(text).toContain("17 91");
      const second = await openPty(link.open, { ...opening, argv: ["sleep", "600"] }, NEVER);
      if (!second.ok) throw new Error(second.fault.message);
      await link.close();
      expect(await second.value.ended).toMatchObject({ ok: false });
      await until(() => processesOf(id).length === 0);
      await vendor.delete(id);
    },
  ],
];
