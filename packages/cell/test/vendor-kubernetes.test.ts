import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Link } from "../src/vendor.ts";
import { startName } from "../src/vendors/pod.ts";
import { vendorContract } from "./contract.ts";
import {
  agentOf,
  execAction,
  linkOf,
  newId,
  noBubblewrap,
  perform,
  processesOf,
  ran,
  ranOf,
  until,
} from "./machine.ts";
import { startFleet } from "./pods.ts";

const NEVER: AbortSignal = new AbortController().signal;

const fleet = await startFleet("file");

const DISK = "a pod's disk ends with the pod: the next generation has a spool of its own";
const RECORD = "its record is in the cluster, and not in a directory";
const NETWORK =
  "a NetworkPolicy is the cluster's to hold, and the stand-in's pods are on this machine";
const LIVES = "a pod outlives the server, and the next server has the same generation";

vendorContract({
  title: "a pod",
  vendor: "kubernetes",
  boundary: "cell",
  skip: noBubblewrap,
  drivers: () => {
    const { vendor, stop } = fleet.vendor();
    const here = { vendor, pid: process.pid, kill: async () => stop() };
    return { here, apart: () => here };
  },
  workspaceOf: (id) => fleet.workspaceOf(id),
  except: {
    "a closed cell starts again as the next generation, and its old link is dead": DISK,
    "an agent that is killed loses its link at once, and the next has its spool": DISK,
    "a cell that kills all that it can reach is a lost link, and starts again": DISK,
    "a cell whose spool is lost says so by a new identity": RECORD,
    "deleting leaves no process and no directory, and spares the workspace": RECORD,
    "a cell that is deleted while it starts does not come up": RECORD,
    "a directory without a record of its cell is not deleted": RECORD,
    "a command outlives its driver, and the next driver has what came of it": LIVES,
    "deleting ends the wait for an earlier agent, and the agent": LIVES,
    "what listens in a cell is reached in it, and what listens on the machine is not": NETWORK,
  },
});

for (const sandboxes of [false, true]) {
  const what = sandboxes ? "a sandbox" : "a pod";
  test(`${what} whose agent ends starts again as the next generation, with a new spool`, async (context) => {
    context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
    const { api, spec, vendor: open } = await startFleet("test", { sandboxes });
    const { vendor } = open();
    const id = newId();
    const its = spec();
    const links: Link[] = [await linkOf((progress) => vendor.create(id, its, progress))];
    const ends: readonly ((link: Link) => Promise<unknown>)[] = [
      (link) => link.close(),
      async (link) => {
        const running = perform(link, execAction(["sleep", "600"]));
        process.kill(agentOf(id), "SIGKILL");
        expect(await running).toMatchObject({ fault: { code: "link_lost" } });
      },
      (link) => perform(link, execAction(["sh", "-c", "kill -9 -1; sleep 600"])),
    ];
    for (const end of ends) {
      const old = links.at(-1) as Link;
      await end(old);
      const link = await linkOf((progress) => vendor.get(id, its, progress));
      expect(link.generation).toBe(old.generation + 1);
      expect(link.spool).not.toBe(old.spool);
      expect(await perform(old, execAction(["true"]))).toMatchObject({
        fault: { code: "link_lost" },
      });
      expect(await ran(link, "true")).toMatchObject({ code: 0 });
      links.push(link);
    }
    const bodies = api.all(sandboxes ? "Sandbox" : "Pod").map(({ metadata }) => metadata.name);
    expect(bodies).toEqual([startName(id, 4)]);
    expect(await vendor.delete(id)).toEqual({ ok: true, value: { kind: "gone" } });
    expect(api.all()).toEqual([]);
    expect(processesOf(id)).toEqual([]);
    expect(await vendor.get(id, its, () => undefined)).toMatchObject({ value: { kind: "gone" } });
  });
}

test("a cell is filled before it is ready, and what is new in it is collected", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const { vendor } = fleet.vendor();
  const id = newId();
  const its = fleet.spec();
  mkdirSync(join(its.workspace, "src"));
  writeFileSync(join(its.workspace, "src/a.txt"), "from here\n");
  const link = await linkOf((progress) => vendor.create(id, its, progress));
  const script = "cat src/a.txt; echo changed > src/a.txt; echo new > b.txt";
  expect(await ran(link, "sh", "-c", script)).toMatchObject({ stdout: "from here\n" });
  expect(readFileSync(join(its.workspace, "src/a.txt"), "utf8")).toBe("from here\n");
  expect(await link.collect(NEVER)).toEqual({ ok: true, value: undefined });
  expect(readFileSync(join(its.workspace, "src/a.txt"), "utf8")).toBe("changed\n");
  // The next pod has what was collected.
  await link.close();
  const next = await linkOf((progress) => vendor.get(id, its, progress));
  expect(await ran(next, "cat", "b.txt")).toMatchObject({ stdout: "new\n" });
  await vendor.delete(id);
});

test("a command outlives its server, and the next server has what came of it", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const id = newId();
  const its = fleet.spec();
  const first = fleet.vendor();
  const old = await linkOf((progress) => first.vendor.create(id, its, progress));
  const script = "echo x >> runs; until [ -e go ]; do sleep 0.02; done; echo whole";
  const action = execAction(["sh", "-c", script]);
  const lost = perform(old, action);
  const workspace = fleet.workspaceOf(id);
  await until(() => existsSync(join(workspace, "runs")));
  first.stop();
  fleet.server.cut();
  expect(await lost).toMatchObject({ fault: { code: "link_lost" } });
  writeFileSync(join(workspace, "go"), "");
  const next = fleet.vendor();
  const link = await linkOf((progress) => next.vendor.get(id, its, progress));
  expect([link.generation, link.spool]).toEqual([1, old.spool]);
  expect(ranOf(await perform(link, action)).stdout).toBe("whole\n");
  expect(readFileSync(join(workspace, "runs"), "utf8")).toBe("x\n");
  await next.vendor.delete(id);
});

test("what is in a pod has no token in its environment, and nothing of this machine's", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const { vendor } = fleet.vendor();
  const id = newId();
  const link = await linkOf((progress) => vendor.create(id, fleet.spec(), progress));
  const { stdout } = await ran(link, "sh", "-c", "env; id -u; touch /usr/x 2>/dev/null || echo no");
  expect(stdout).not.toContain("dev1.");
  expect(stdout).not.toContain("KUBERNETES_");
  expect(stdout).toMatch(/^1000$/m);
  expect(stdout).toMatch(/^no$/m);
  const pod = JSON.stringify(fleet.api.get("Pod", startName(id, 1)));
  expect(pod).not.toContain("dev1.");
  await vendor.delete(id);
});
