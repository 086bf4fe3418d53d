import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { Vendor } from "../src/vendor.ts";
import type { VendorOptions } from "../src/vendors/registry.ts";
import { remoteVendor } from "../src/vendors/remote.ts";
import { type Drivers, vendorContract } from "./contract.ts";
import { ACCOUNT, TestServer } from "./far.ts";
import {
  atEnd,
  bundled,
  type Driver,
  execAction,
  linkOf,
  newId,
  optionsIn,
  perform,
  ran,
  ranOf,
  specIn,
  temporary,
  until,
} from "./machine.ts";
import { allow } from "./network.ts";
import { type Posted, posted } from "./outpost.ts";

const server = await TestServer.start("file");
afterAll(() => server.stop());
const program = await bundled(
  "outpost.ts",
  join(mkdtempSync(join(temporary(), "outpost-")), "outpost.mjs"),
);

const HOLDER = {
  holder: `host/${process.pid}`,
  isAlive: (its: string) => its === `host/${process.pid}`,
};

let names = 0;

/** What a host has of the vendor that is connected under a name, when it is. */
function hosted(name: string): Vendor {
  const far = remoteVendor({
    name,
    take: () => server.upgrades.vendor(ACCOUNT, name),
    handlers: () => ({}),
    holder: HOLDER,
  });
  const connected = async (): Promise<void> => server.connected(name);
  return {
    name,
    create: (id, spec, progress) =>
      connected().then(() => far.at(spec.workspace).create(id, spec, progress)),
    get: (id, spec, progress) =>
      connected().then(() => far.at(spec.workspace).get(id, spec, progress)),
    hibernate: (id) => connected().then(() => far.at("").hibernate(id)),
    delete: (id) => connected().then(() => far.at("").delete(id)),
  };
}

function postedAs(options: VendorOptions): Posted {
  names += 1;
  const token = server.token({ kind: "vendor" });
  return { vendor: "local", options, url: server.url, name: `far-${names}`, token };
}

function remoteDrivers(options: VendorOptions): Drivers {
  const stop = new AbortController();
  const its = postedAs(options);
  const { dial, outpost } = posted(its, stop.signal);
  void outpost.serve(dial, stop.signal);
  atEnd(() => stop.abort());
  const here = { vendor: hosted(its.name), pid: process.pid, kill: async () => stop.abort() };
  return { here, apart: () => outpostApart(options) };
}

/** The vendor's process is the one that is killed. */
function outpostApart(options: VendorOptions): Driver {
  const its = postedAs(options);
  const child = spawn(process.execPath, [program, JSON.stringify(its)], { stdio: "inherit" });
  const exited = once(child, "exit");
  atEnd(() => void child.kill("SIGKILL"));
  return {
    vendor: hosted(its.name),
    pid: child.pid ?? 0,
    kill: async () => {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

vendorContract({
  title: "a vendor on another machine",
  vendor: "local",
  boundary: "none",
  options: { confine: false },
  skip: undefined,
  drivers: remoteDrivers,
});

/** A vendor elsewhere, with the host's half bare. */
function far() {
  const base = temporary();
  const its = postedAs(optionsIn(base, { confine: false }));
  const stop = new AbortController();
  atEnd(() => stop.abort());
  const remote = remoteVendor({
    name: its.name,
    take: () => server.upgrades.vendor(ACCOUNT, its.name),
    handlers: () => ({}),
    holder: HOLDER,
  });
  const connect = async (): Promise<void> => {
    const { dial, outpost } = posted(its, stop.signal);
    void outpost.serve(dial, stop.signal);
    await server.connected(its.name);
  };
  // One machine: a directory's name there is its path.
  const vendor: Vendor = {
    ...remote.at(""),
    create: (id, spec, progress) => remote.at(spec.workspace).create(id, spec, progress),
    get: (id, spec, progress) => remote.at(spec.workspace).get(id, spec, progress),
  };
  return { remote, vendor, connect, spec: () => specIn(base), name: its.name, its };
}

test("a vendor that nobody is connected for is unavailable, and never gone", async () => {
  const { vendor, spec, name, connect } = far();
  const away = { ok: false, fault: { code: "unavailable", subject: name } };
  const id = newId();
  expect(await vendor.get(id, spec(), () => undefined)).toMatchObject(away);
  expect(await vendor.create(id, spec(), () => undefined)).toMatchObject(away);
  expect(await vendor.hibernate(id)).toMatchObject(away);
  expect(await vendor.delete(id)).toMatchObject(away);
  await connect();
  expect(await vendor.get(id, spec(), () => undefined)).toMatchObject({ value: { kind: "gone" } });
});

test("a cell elsewhere that is to have a network is refused, rather than started without one", async () => {
  const { vendor, connect, spec, name } = far();
  await connect();
  const id = newId();
  const its = spec();
  const network = { allow: [allow("web.example.test", 443)], certificates: [] };
  const refused = { ok: false, fault: { code: "unsupported", subject: name } };
  for (const ask of [vendor.create, vendor.get]) {
    expect(await ask(id, { ...its, network }, () => undefined)).toMatchObject(refused);
  }
  expect(await vendor.get(id, its, () => undefined)).toMatchObject({ value: { kind: "gone" } });
  // Rules that allow nothing are what it has.
  const nothing = { ...its, network: { ...network, allow: [] } };
  await linkOf((progress) => vendor.create(id, nothing, progress));
  await vendor.delete(id);
});

test("what a vendor elsewhere has is told", async () => {
  const { remote, connect } = far();
  expect(await remote.describe()).toMatchObject({ fault: { code: "unavailable" } });
  await connect();
  expect(await remote.describe()).toMatchObject({ value: { vendor: "local", workspaces: [] } });
});

test("the vendor's link is cut in mid-command; the command's result arrives once on the next", async () => {
  const { vendor, connect, spec, name } = far();
  await connect();
  const id = newId();
  const its = spec();
  const first = await linkOf((progress) => vendor.create(id, its, progress));
  const action = execAction([
    "sh",
    "-c",
    "echo x >> runs; until [ -e go ]; do sleep 0.02; done; echo whole",
  ]);
  const lost = perform(first, action);
  await until(() => existsSync(join(its.workspace, "runs")));
  const since = server.upgrades.holder(ACCOUNT, name)?.sinceMs;
  server.cut();
  expect(await lost).toMatchObject({ fault: { code: "link_lost" } });
  writeFileSync(join(its.workspace, "go"), "");
  await until(() => ![undefined, since].includes(server.upgrades.holder(ACCOUNT, name)?.sinceMs));
  const second = await linkOf((progress) => vendor.get(id, its, progress));
  // The cell never went away: it is the same start of it.
  expect([second.generation, second.spool]).toEqual([first.generation, first.spool]);
  const both = await Promise.all([perform(second, action), perform(second, action)]);
  expect(both.map((answer) => ranOf(answer).stdout)).toEqual(["whole\n", "whole\n"]);
  expect(readFileSync(join(its.workspace, "runs"), "utf8")).toBe("x\n");
  await vendor.delete(id);
});

test("an effect that is cancelled is cancelled elsewhere too, and its output comes meanwhile", async () => {
  const { vendor, connect, spec } = far();
  await connect();
  const id = newId();
  const its = spec();
  const link = await linkOf((progress) => vendor.create(id, its, progress));
  const abort = new AbortController();
  const told: string[] = [];
  const running = link.perform(
    execAction(["sh", "-c", "echo begun; sleep 600"]),
    (_, text) => told.push(text),
    abort.signal,
  );
  await until(() => told.join("") === "begun\n");
  abort.abort();
  expect(await running).toMatchObject({ value: { outcome: { kind: "cancelled" } } });
  expect(await ran(link, "echo", "on")).toMatchObject({ stdout: "on\n" });
  await vendor.delete(id);
});

test("a kind of channel that no agent serves is refused from there", async () => {
  const { vendor, connect, spec } = far();
  await connect();
  const id = newId();
  const link = await linkOf((progress) => vendor.create(id, spec(), progress));
  const idle = new AbortController().signal;
  expect(await link.open("egress", new Uint8Array(0), idle)).toMatchObject({
    fault: { code: "unsupported" },
  });
  await vendor.delete(id);
});

test("a name that is held is refused to a second process, by name", async () => {
  const { connect, its, name } = far();
  await connect();
  const stop = new AbortController();
  const { dial, outpost } = posted(its, stop.signal);
  const why = await outpost.serve(dial, stop.signal);
  expect(why).toMatchObject({ code: "superseded" });
  expect(why.message).toMatch(new RegExp(`^${name} is held by tests since \\d{4}-`));
});

test("a cell elsewhere has its workspace filled from here, once, and what it makes of it is collected", async () => {
  const { remote, connect, spec, its } = far();
  await connect();
  const id = newId();
  const here = spec();
  writeFileSync(join(here.workspace, "kept"), "kept\n");
  writeFileSync(join(here.workspace, "goes"), "goes\n");
  const vendor = remote.filled();
  const link = await linkOf((progress) => vendor.create(id, here, progress));
  const made = await ran(
    link,
    "sh",
    "-c",
    "cat kept goes; rm goes; mkdir -p in; echo made > in/made",
  );
  expect(made).toMatchObject({ code: 0, stdout: "kept\ngoes\n" });
  // Nothing comes here but when it is collected.
  expect(existsSync(join(here.workspace, "in"))).toBe(false);
  expect(existsSync(join(its.options.home, "own", id, "in/made"))).toBe(true);
  const idle = new AbortController().signal;
  expect(await link.collect(idle)).toEqual({ ok: true, value: undefined });
  expect(readFileSync(join(here.workspace, "in/made"), "utf8")).toBe("made\n");
  expect(existsSync(join(here.workspace, "goes"))).toBe(false);
  // What the cell has done since stays, whoever asks for the cell again with an older cache.
  await ran(link, "sh", "-c", "echo newer > kept");
  await link.close();
  const next = await linkOf((progress) => vendor.get(id, here, progress));
  expect(next.generation).toBe(2);
  expect(await ran(next, "cat", "kept")).toMatchObject({ stdout: "newer\n" });
  expect(await next.collect(idle)).toMatchObject({ ok: true });
  expect(readFileSync(join(here.workspace, "kept"), "utf8")).toBe("newer\n");
  await vendor.delete(id);
});
