import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type CellReport, probeCells } from "../src/probe.ts";
import { diagnose } from "../src/vendors/diagnosis.ts";
import { openVendor, type VendorOptions } from "../src/vendors/registry.ts";
import { atEnd, noBubblewrap, noRuntime, optionsIn, runsc, temporary } from "./machine.ts";

const NEVER = new AbortController().signal;
const CHANCE = { nowMs: Date.now, random: (count: number): Uint8Array => randomBytes(count) };

async function probed(
  rest: Partial<VendorOptions> = {},
  names: readonly string[] = ["bubblewrap", "local"],
): Promise<readonly CellReport[]> {
  const options = optionsIn(temporary(), rest);
  const vendors = names.map((name) => {
    const vendor = openVendor(name, options, NEVER);
    if (!vendor.ok) throw new Error(vendor.fault.message);
    return vendor.value;
  });
  return probeCells(vendors, CHANCE, NEVER);
}

/** A program in bubblewrap's place that says what bubblewrap would say on another machine. */
function failing(words: string): string {
  // Not in /tmp: a chain that starts as root has another one there.
  const directory = mkdtempSync("/var/tmp/dev-cell-");
  atEnd(() => rmSync(directory, { recursive: true }));
  chmodSync(directory, 0o755);
  const path = join(directory, "bwrap");
  writeFileSync(path, `#!/bin/sh\necho 'bwrap: ${words}' >&2\nexit 1\n`);
  chmodSync(path, 0o755);
  return path;
}

test("every kind of cell works here, and says how strong it is", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  expect(await probed()).toMatchObject([
    { kind: "works", vendor: "bubblewrap", boundary: "cell", weaker: undefined },
    { kind: "works", vendor: "local", boundary: "process", weaker: undefined },
  ]);
});

test("the kinds that a runtime runs work here, and are as strong", async (context) => {
  for (const [name, binary] of RUNTIMES) {
    const why = noRuntime(binary);
    context.skip(why !== undefined, `${why}`);
    expect(await probed({}, [name])).toMatchObject([
      { kind: "works", vendor: name, boundary: "cell", weaker: undefined },
    ]);
  }
});

const RUNTIMES = [
  ["gvisor", runsc],
  ["runc", "runc"],
  ["container", "podman"],
] as const;

test("a runtime that is not there is named, with the way to have it", async () => {
  const nowhere = { binary: "/nowhere/runsc" };
  expect(await probed({ runsc: nowhere }, ["gvisor"])).toMatchObject([
    { fault: { subject: "/nowhere/runsc", mend: expect.stringContaining("gVisor") } },
  ]);
  expect(await probed({ runc: { binary: "/nowhere/runc" } }, ["runc"])).toMatchObject([
    { fault: { mend: expect.stringContaining("apt-get install runc") } },
  ]);
  expect(await probed({ container: { binary: "/nowhere/podman" } }, ["container"])).toMatchObject([
    { fault: { mend: expect.stringContaining("apt-get install podman") } },
  ]);
});

test("without bubblewrap the strong kind is missing, and the local one says that it is none", async () => {
  const install = expect.stringContaining("apt-get install bubblewrap");
  const why = { code: "unavailable", mend: install };
  expect(await probed({ bwrap: "/nowhere/bwrap" })).toMatchObject([
    { kind: "missing", vendor: "bubblewrap", fault: why },
    { kind: "works", vendor: "local", boundary: "none", weaker: why },
  ]);
});

test("where user namespaces are closed, the reason is bubblewrap's and the mend is named", async () => {
  const words =
    "No permissions to create new namespace, likely because the kernel does not allow it";
  const why = {
    message: expect.stringContaining(words),
    mend: expect.stringContaining("kernel.unprivileged_userns_clone=1"),
  };
  expect(await probed({ bwrap: failing(words) })).toMatchObject([
    { kind: "missing", vendor: "bubblewrap", fault: why },
    { kind: "works", vendor: "local", boundary: "none", weaker: why },
  ]);
});

test("a kind that was switched off says so", async () => {
  const [, local] = await probed({ confine: false });
  expect(local).toMatchObject({ boundary: "none", weaker: { code: "unsupported" } });
});

test("a sandbox that does not hold what it claims is missing", async () => {
  const path = join(temporary(), "bwrap");
  // It runs the command as it is: everything works, and nothing is confined.
  const program = `#!/usr/bin/env node
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const argv = process.argv.slice(2);
const command = argv.slice(argv.indexOf("--") + 1);
let inside = ["ignore", "inherit", "inherit"];
if (argv[0] === "--args") {
  const args = fs.readFileSync(6, "utf8").split("\\0");
  const at = (name) => args[args.indexOf(name) + 1];
  for (let i = 0; i < args.length; i++) if (args[i] === "--setenv") process.env[args[i + 1]] = args[i + 2];
  process.chdir(at("--chdir"));
  inside.push(3);
}
const child = spawn(command[0], command.slice(1), { stdio: inside });
if (argv[0] === "--args") fs.writeSync(4, JSON.stringify({ "child-pid": child.pid }));
child.on("exit", (code) => process.exit(code ?? 1));
`;
  writeFileSync(path, program);
  chmodSync(path, 0o755);
  const [, local] = await probed({ bwrap: path });
  expect(local).toMatchObject({ kind: "missing", vendor: "local" });
  const message = local?.kind === "missing" ? local.fault.message : "";
  expect(message).toContain("does not hold that system calls are filtered");
  expect(message).toContain("that its processes are apart");
});

test("each cause that is known has a mend, and one that is not keeps the words", () => {
  const mendOf = (words: string): string => diagnose("bubblewrap", words).mend;
  expect(mendOf("bwrap: setting up uid map: Permission denied")).toContain("AppArmor");
  expect(mendOf("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted")).toContain(
    "AppArmor",
  );
  expect(mendOf("bwrap: Creating new namespace failed: No space left on device")).toContain(
    "user.max_user_namespaces",
  );
  expect(mendOf("bwrap: Unknown option --disable-userns")).toContain("0.8");
  expect(mendOf("setpriv: failed to execute bwrap: No such file or directory")).toContain(
    "install bubblewrap",
  );
  expect(mendOf("sh: 1: exec: setpriv: not found")).toContain("util-linux");
  const start = 'urpc method "containerManager.StartRoot" failed: EOF';
  expect(mendOf(start)).toContain("systrap");
  expect(mendOf("Error: tools:3: image not known")).toContain("pull the image");
  expect(mendOf('exec: "newuidmap": executable file not found in $PATH')).toContain("uidmap");
  expect(mendOf("error during container init: mkdir /sys/fs/cgroup/pids/x: read-only")).toContain(
    "controllers",
  );
  expect(diagnose("bubblewrap", "something new")).toMatchObject({
    code: "unavailable",
    message: "bubblewrap: something new",
  });
});

test("a kind that nobody knows is a fault that lists those that there are", () => {
  for (const name of ["constructor", ""]) {
    const vendor = openVendor(name, optionsIn(temporary()), NEVER);
    expect(vendor).toMatchObject({ ok: false, fault: { subject: name } });
    expect(vendor.ok ? "" : vendor.fault.mend).toContain(
      "bubblewrap, container, gvisor, kubernetes, runc, local",
    );
  }
});
