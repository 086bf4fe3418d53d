import { randomUUID } from "node:crypto";
import { PassThrough } from "node:stream";
import { type CellId, fail, fault, ok } from "@dev/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Vendor } from "../src/vendor.ts";
import { nameOf, startName } from "../src/vendors/pod.ts";
import { openVendor } from "../src/vendors/registry.ts";
import { flaws, restrictions } from "./apischema.ts";
import { type Asked, statusOf, type Trouble } from "./apiserver.ts";
import {
  acquired,
  linkOf,
  newId,
  noBubblewrap,
  optionsIn,
  ran,
  temporary,
  until,
} from "./machine.ts";
import { allow } from "./network.ts";
import { type Fleet, startFleet } from "./pods.ts";

const GONE = { ok: true, value: { kind: "gone" } };
const UNAVAILABLE = { ok: false, fault: { code: "unavailable" } };

/** A cell whose pod nobody runs. */
async function pending(fleet: Fleet, vendor: Vendor): Promise<CellId> {
  const id = newId();
  expect(await vendor.create(id, fleet.spec(), () => undefined)).toMatchObject({ ok: true });
  await until(() => fleet.api.get("Pod", startName(id, 1)) !== undefined);
  return id;
}

/** A fleet without nodes: pods stay as they are made. */
async function quiet(): Promise<{ readonly fleet: Fleet; readonly vendor: Vendor }> {
  const fleet = await startFleet("test", { nodes: false });
  fleet.kubelet.unschedulable = "0/3 nodes are available: 3 Insufficient memory.";
  return { fleet, vendor: fleet.vendor().vendor };
}

const outages: readonly (readonly [string, Trouble])[] = [
  ["a status of 500", answer(500, statusOf(500, "InternalError", "", "etcd is away"))],
  ["a limit, 429", answer(429, statusOf(429, "TooManyRequests", "", "slow down"))],
  ["a refusal, 403", answer(403, statusOf(403, "Forbidden", "", "no rights"))],
  ["a proxy's page, 502", { kind: "answer", status: 502, body: "<html>Bad Gateway</html>" }],
  ["a proxy's page, 404", { kind: "answer", status: 404, body: "<html>Not Found</html>" }],
  ["404 of another name", answer(404, statusOf(404, "NotFound", "another", "not found"))],
  ["another object", answer(200, { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "x" } })],
  ["200 and a page", { kind: "answer", status: 200, body: "<html>sign in</html>" }],
];

function answer(status: number, body: object): Trouble {
  return { kind: "answer", status, body: JSON.stringify(body) };
}

test.each(outages)("%s is an outage, and no verdict", async (_, trouble) => {
  const { fleet, vendor } = await quiet();
  const id = await pending(fleet, vendor);
  const other = fleet.vendor().vendor;
  fleet.api.trouble = ({ kind }) => (kind === "ConfigMap" ? trouble : undefined);
  const before = fleet.api.all().length;
  expect(await other.get(id, fleet.spec(), () => undefined)).toMatchObject(UNAVAILABLE);
  expect(await other.hibernate(id)).toMatchObject(UNAVAILABLE);
  expect(await other.delete(id)).toMatchObject(UNAVAILABLE);
  expect(await other.create(newId(), fleet.spec(), () => undefined)).toMatchObject({ ok: false });
  expect(fleet.api.all().length).toBe(before);
  fleet.api.trouble = () => undefined;
  expect(await other.delete(id)).toEqual(GONE);
  expect(fleet.api.all()).toEqual([]);
});

test("a cell that is to have a network is refused, and nothing is made", async () => {
  const { fleet, vendor } = await quiet();
  const before = fleet.api.all().length;
  const network = { allow: [allow("web.example.test", 443)], certificates: [] };
  const refused = { ok: false, fault: { code: "unsupported", subject: "network" } };
  for (const ask of [vendor.create, vendor.get]) {
    expect(await ask(newId(), { ...fleet.spec(), network }, () => undefined)).toMatchObject(
      refused,
    );
  }
  expect(fleet.api.all().length).toBe(before);
});

test("a server that is not there is an outage", async () => {
  const { fleet, vendor } = await quiet();
  const id = await pending(fleet, vendor);
  await fleet.api.close();
  expect(await fleet.vendor().vendor.get(id, fleet.spec(), () => undefined)).toMatchObject(
    UNAVAILABLE,
  );
});

test("a pod that no node has room for is starting until it is deleted, and never gone", async () => {
  const { fleet, vendor } = await quiet();
  const id = await pending(fleet, vendor);
  expect(await vendor.get(id, fleet.spec(), () => undefined)).toEqual({
    ok: true,
    value: { kind: "starting" },
  });
  expect(await fleet.vendor().vendor.hibernate(id)).toEqual({
    ok: true,
    value: { kind: "starting" },
  });
  expect(await vendor.delete(id)).toEqual(GONE);
});

test("what a pod waits for is said when it has not dialled", async () => {
  const { fleet } = await quiet();
  const gaveUp = fail(fault("unavailable", "nobody dialled", "cell"));
  let give: () => void = () => undefined;
  const given = new Promise<void>((resolve) => {
    give = resolve;
  });
  const { vendor } = fleet.vendor({ dialled: () => given.then(() => gaveUp) });
  const id = newId();
  const starting = acquired((progress) => vendor.create(id, fleet.spec(), progress));
  await until(() => fleet.api.asked.some(({ verb }) => verb === "watch"));
  give();
  expect((await starting).last).toMatchObject({
    kind: "failed",
    fault: { code: "unavailable", message: expect.stringContaining("Insufficient memory") },
  });
  expect(await vendor.delete(id)).toEqual(GONE);
});

test.each([
  ["ConfigMap", "create"],
  ["ConfigMap", "update"],
  ["NetworkPolicy", "create"],
  ["Secret", "create"],
  ["Pod", "create"],
] as const)(
  "when the answer to a %s's %s is lost, the next who asks goes on",
  async (kind, verb) => {
    const { fleet, vendor } = await quiet();
    const id = newId();
    const spec = fleet.spec();
    let lost = 0;
    fleet.api.trouble = (asked): Trouble | undefined => {
      if (asked.kind !== kind || asked.verb !== verb || lost > 0) return undefined;
      lost += 1;
      return { kind: "die" };
    };
    let failed = false;
    const created = await vendor.create(id, spec, ({ kind: now }) => {
      failed = now === "failed";
    });
    if (created.ok) await until(() => failed);
    expect(lost).toBe(1);
    expect(fleet.api.get("ConfigMap", nameOf(id))).toBeDefined();
    expect(await vendor.get(id, spec, () => undefined)).toMatchObject({
      value: { kind: "starting" },
    });
    await until(() => fleet.api.all("Pod").length === 1);
    expect(await vendor.delete(id)).toEqual(GONE);
    expect(fleet.api.all()).toEqual([]);
  },
);

test("whatever fails, a generation is raised once, gone is true, and deleting leaves nothing", async () => {
  const call = fc.record({
    server: fc.nat({ max: 1 }),
    what: fc.constantFrom("get", "hibernate", "delete"),
  });
  const ill = fc.constantFrom("well", "well", "well", "die", "refuse", "nothing");
  const plan = fc.record({
    calls: fc.array(call, { minLength: 1, maxLength: 6 }),
    troubles: fc.array(ill, { maxLength: 40 }),
  });
  await fc.assert(
    fc.asyncProperty(plan, async ({ calls, troubles }) => {
      const fleet = await startFleet("file", { nodes: false });
      fleet.kubelet.unschedulable = "no room";
      const raises: number[] = [];
      fleet.api.onChange(({ object, type }) => {
        if (object.kind !== "ConfigMap" || type === "DELETED") return;
        const generation = Number(object.metadata.annotations?.["dev.generation"]);
        // Being deleted is the one other thing that a record is changed for, and the last.
        if (object.metadata.annotations?.["dev.deleting"] === undefined) raises.push(generation);
      });
      const servers = [fleet.vendor().vendor, fleet.vendor().vendor];
      const id = newId();
      const spec = fleet.spec();
      await servers[0]?.create(id, spec, () => undefined);
      const rest = [...troubles];
      fleet.api.trouble = ({ verb }): Trouble | undefined => {
        const next = verb === "watch" ? undefined : rest.shift();
        if (next === "die" || next === "nothing") return { kind: next };
        return next === "refuse" ? answer(503, statusOf(503, "Unavailable", "", "")) : undefined;
      };
      for (const { server, what } of calls) {
        const vendor = servers[server] as Vendor;
        const said = await (what === "get"
          ? vendor.get(id, spec, () => undefined)
          : vendor[what as "hibernate" | "delete"](id));
        if (said.ok && said.value.kind === "gone") {
          const record = fleet.api.get("ConfigMap", nameOf(id));
          expect(record?.metadata.annotations?.["dev.deleting"] ?? "true").toBe("true");
        }
      }
      fleet.api.trouble = () => undefined;
      expect(raises).toEqual(raises.map((_, index) => index));
      for (const vendor of servers) expect(await vendor.delete(id)).toEqual(GONE);
      expect(fleet.api.all()).toEqual([]);
    }),
    { numRuns: 30 },
  );
}, 60_000);

test("a list that has nothing does not leave a pod behind", async () => {
  const { fleet, vendor } = await quiet();
  const id = await pending(fleet, vendor);
  fleet.api.trouble = ({ verb }) => (verb === "list" ? { kind: "nothing" } : undefined);
  const deleted = await vendor.delete(id);
  fleet.api.trouble = () => undefined;
  expect(deleted).toEqual(GONE);
  expect(fleet.api.all()).toEqual([]);
});

test("what does not say that it is this cell's is left alone", async () => {
  const { fleet, vendor } = await quiet();
  const id = await pending(fleet, vendor);
  const record = fleet.api.get("ConfigMap", nameOf(id));
  if (record === undefined) throw new Error("no record");
  const other = newId();
  const foreign = { ...record.metadata, name: nameOf(other), uid: randomUUID(), labels: {} };
  fleet.api.put({ ...record, metadata: foreign });
  const refused = { ok: false, fault: { code: "corrupt" } };
  expect(await vendor.delete(other)).toMatchObject(refused);
  // One of another owner, or of another cell, is no proof either.
  const labels = record.metadata.labels ?? {};
  fleet.api.put({ ...record, metadata: { ...foreign, labels } });
  expect(await vendor.delete(other)).toMatchObject(refused);
  const owned = { ...labels, "dev.cell": other, "dev.owner": "somebody" };
  fleet.api.put({ ...record, metadata: { ...foreign, labels: owned } });
  expect(await vendor.delete(other)).toMatchObject(refused);
  expect(await vendor.get(other, fleet.spec(), () => undefined)).toMatchObject(refused);
  expect(fleet.api.get("ConfigMap", nameOf(other))).toBeDefined();
  expect(await vendor.delete(id)).toEqual(GONE);
});

test("two servers that start a cell at once never share a generation's start, and come to one pod", async () => {
  const { fleet, vendor } = await quiet();
  const id = newId();
  const spec = fleet.spec();
  let go: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    go = resolve;
  });
  let waiting = 0;
  fleet.api.trouble = ({ kind, verb }): Trouble | undefined => {
    if (kind !== "ConfigMap" || verb !== "update") return undefined;
    waiting += 1;
    if (waiting === 2) go();
    return waiting <= 2 ? { kind: "wait", until: gate } : undefined;
  };
  const raises: unknown[] = [];
  fleet.api.onChange(({ object }) => {
    if (object.kind === "ConfigMap") raises.push(object.metadata.annotations?.["dev.generation"]);
  });
  const other = fleet.vendor().vendor;
  await vendor.create(id, spec, () => undefined);
  await other.get(id, spec, () => undefined);
  const settled = (): boolean => {
    const pods = fleet.api.all("Pod").map(({ metadata }) => metadata.name);
    const watched = fleet.api.asked.filter(({ kind, verb }) => kind === "Pod" && verb === "watch");
    return watched.length >= 2 && `${pods}` === startName(id, Number(raises.at(-1)));
  };
  await until(settled);
  // Each generation was one server's; the other went on from there.
  expect(raises).toEqual(["0", "1", "2"].slice(0, raises.length));
  expect(await vendor.delete(id)).toEqual(GONE);
});

test("a watch goes on after it was cut, and after the server has forgotten where it was", async () => {
  const { fleet, vendor } = await quiet();
  const id = newId();
  const starting = acquired((progress) => vendor.create(id, fleet.spec(), progress));
  const count = (verb: Asked["verb"]): number =>
    fleet.api.asked.filter((asked) => asked.kind === "Pod" && asked.verb === verb).length;
  await until(() => fleet.api.get("Pod", startName(id, 1)) !== undefined);
  await until(() => count("watch") > 0);
  const [watches, lists] = [count("watch"), count("list")];
  fleet.api.cutWatches();
  await until(() => count("watch") > watches);
  expect(count("list")).toBe(lists);
  const pod = newestPod(fleet);
  fleet.api.cutWatches();
  fleet.api.put({ ...pod, metadata: { ...pod.metadata, annotations: { seen: "no" } } });
  fleet.api.forget();
  await until(() => count("list") > lists);
  fleet.api.setStatus(startName(id, 1), { phase: "Failed", reason: "Evicted" });
  expect((await starting).last).toMatchObject({
    fault: { code: "unavailable", message: expect.stringContaining("Evicted") },
  });
  expect(await vendor.delete(id)).toEqual(GONE);
});

function newestPod({ api }: Fleet) {
  const pod = api.all("Pod").at(-1);
  if (pod === undefined) throw new Error("no pod");
  return pod;
}

test("a cell that is deleted while it starts does not come up", async () => {
  const { fleet, vendor } = await quiet();
  const id = newId();
  const starting = acquired((progress) => vendor.create(id, fleet.spec(), progress));
  await until(() => fleet.api.get("ConfigMap", nameOf(id)) !== undefined);
  expect(await vendor.delete(id)).toEqual(GONE);
  expect((await starting).last).toMatchObject({ kind: "failed" });
  expect(fleet.api.all()).toEqual([]);
});

test("a pod that waited for a node comes up when there is one", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const fleet = await startFleet("test");
  fleet.kubelet.unschedulable = "0/3 nodes are available";
  const { vendor } = fleet.vendor();
  const id = newId();
  const link = linkOf((progress) => vendor.create(id, fleet.spec(), progress));
  await until(() => fleet.api.get("Pod", startName(id, 1)) !== undefined);
  fleet.kubelet.schedule();
  expect(await ran(await link, "true")).toMatchObject({ code: 0 });
  expect(await vendor.delete(id)).toEqual(GONE);
});

test("a link that is not the agent's is a start that failed, and is tried again", async () => {
  const { fleet } = await quiet();
  const stream = new PassThrough();
  stream.end("HTTP/1.1 400\r\n\r\n");
  const { vendor } = fleet.vendor({ dialled: async () => ok(stream) });
  const id = newId();
  const { last } = await acquired((progress) => vendor.create(id, fleet.spec(), progress));
  expect(last).toMatchObject({ kind: "failed", fault: { code: "link_lost" } });
  expect(await vendor.delete(id)).toEqual(GONE);
});

test("without settings, without a cluster and without a server it is said what is missing", async () => {
  const base = temporary();
  const { api, settings, spec } = await startFleet("test");
  const ask = async (rest: Parameters<typeof optionsIn>[1]): Promise<unknown> => {
    const vendor = openVendor("kubernetes", optionsIn(base, rest), AbortSignal.timeout(60_000));
    if (!vendor.ok) throw new Error(vendor.fault.message);
    return vendor.value.create(newId(), spec(), () => undefined);
  };
  expect(await ask({})).toMatchObject({ fault: { code: "config", subject: "kubernetes" } });
  expect(await ask({ kubernetes: { ...settings, context: "other" } })).toMatchObject({
    fault: { code: "config", message: expect.stringContaining("it has: tests") },
  });
  expect(await ask({ kubernetes: settings })).toMatchObject({
    fault: { message: expect.stringMatching(/^the cluster answers .*namespace cells.*gvisor/) },
  });
  expect(api.all()).toEqual([]);
});

test("the stand-in refuses what an API server would", () => {
  const pod = (spec: object) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "a", namespace: "cells" },
    spec,
  });
  const whole = { name: "a", image: "b" };
  expect(flaws(pod({ containers: [whole] }))).toEqual([]);
  expect(restrictions(pod({ containers: [whole] }))).toContain("runAsNonRoot");
  for (const spec of [
    { containers: [whole], restart: "Never" },
    { containers: [{ name: "a" }] },
    { containers: [{ name: "A", image: "b" }] },
    { containers: [whole], restartPolicy: "Sometimes" },
    { containers: [{ ...whole, resources: { limits: { memory: "1 GB" } } }] },
    { containers: [{ ...whole, volumeMounts: [{ name: "v", mountPath: "/v" }] }] },
    { containers: [whole], automountServiceAccountToken: "false" },
    {},
  ]) {
    expect(flaws(pod(spec))).not.toEqual([]);
  }
});
