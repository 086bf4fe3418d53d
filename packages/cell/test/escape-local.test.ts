import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { escapes, outsideRan, PROBES, type Probe } from "./escape.ts";
import {
  driverHere,
  isRoot,
  linkOf,
  NOBODY,
  newId,
  noBubblewrap,
  optionsIn,
  ran,
  specIn,
  temporary,
} from "./machine.ts";

const IN_PLACE: readonly Probe[] = [
  [
    "the workspace has the same path inside as outside",
    async ({ link, spec }) => {
      expect((await ran(link, "pwd")).stdout).toBe(`${spec.workspace}\n`);
    },
  ],
  [
    "a command runs as the person, and nothing outside the workspace can be written",
    async ({ link, spec, outside }) => {
      const uid = outsideRan(["stat", "-c", "%u", spec.workspace]);
      expect((await ran(link, "id", "-u")).stdout).toBe(uid);
      const [, inHome = ""] = outside.files;
      await ran(link, "sh", "-c", `echo changed > ${inHome}; rm -f ${inHome}`);
      expect(outsideRan(["cat", inHome])).toBe(outside.canary);
    },
  ],
  [
    "the machine's /tmp and the sockets in it are not the cell's",
    async ({ link, outside }) => {
      const [, , inTmp = ""] = outside.files;
      expect(outsideRan(["cat", inTmp])).toBe(outside.canary);
      expect((await ran(link, "cat", inTmp)).code).not.toBe(0);
      expect((await ran(link, "ls", "/run")).stdout).toBe("");
      const peer = `print IO::Socket::UNIX->new(Peer => "${outside.socketPath}") ? "yes" : "no"`;
      const connects = ["perl", "-MIO::Socket::UNIX", "-e", peer];
      expect(outsideRan(connects)).toBe("yes");
      expect((await ran(link, ...connects)).stdout).toBe("no");
    },
  ],
  [
    "caches go where they can be written",
    async ({ link }) => {
      const writes = 'mkdir -p "$XDG_CACHE_HOME" "$npm_config_cache" && echo made';
      expect((await ran(link, "sh", "-c", writes)).stdout).toBe("made\n");
    },
  ],
];

for (const subject of [
  { title: "a local cell", skip: noBubblewrap },
  {
    title: "a local cell of an ordinary user",
    uid: NOBODY,
    skip: noBubblewrap ?? (isRoot ? undefined : "the tests already run as an ordinary user"),
  },
]) {
  escapes({ vendor: "local", ...subject }, [...PROBES, ...IN_PLACE]);
}

test("credentials and masked places are empty in a local cell", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const base = temporary();
  const person = join(base, "person");
  const state = join(person, ".state");
  const secrets = [
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".netrc",
    ".npmrc",
    ".config/gh/hosts.yml",
    ".state/token",
  ].map((name) => join(person, name));
  for (const secret of [...secrets, join(person, "notes")]) {
    mkdirSync(join(secret, ".."), { recursive: true });
    writeFileSync(secret, "text");
  }
  const workspace = join(person, "project");
  mkdirSync(workspace);
  const environment = { PATH: process.env.PATH, HOME: person, SECRET_KEY: "text" };
  // Outside /tmp as far as the cell can tell: /tmp itself would hide all of it.
  const home = join(state, "cells");
  const options = { ...optionsIn(base, { environment, masked: [state] }), home };
  const { vendor } = driverHere("local", options);
  const id = newId();
  const spec = { ...specIn(base), workspace: person };
  const link = await linkOf((progress) => vendor.create(id, spec, progress));
  const reads = (await ran(link, "cat", ...secrets)).stdout;
  expect(outsideRan(["cat", ...secrets])).toBe("text".repeat(secrets.length));
  expect(reads).toBe("");
  expect((await ran(link, "cat", join(person, "notes"))).stdout).toBe("text");
  expect(
    (await ran(link, "sh", "-c", `: > ${person}/.ssh/config || : > ${state}/x`)).code,
  ).not.toBe(0);
  expect((await ran(link, "env")).stdout).not.toContain("SECRET_KEY");
  await vendor.delete(id);
});

test("without confinement the person's own keys are not in a command's environment", async () => {
  const base = temporary();
  const environment = { PATH: process.env.PATH, HOME: base, SECRET_KEY: "text" };
  const { vendor } = driverHere("local", optionsIn(base, { environment, confine: false }));
  const id = newId();
  const link = await linkOf((progress) => vendor.create(id, specIn(base), progress));
  const { stdout } = await ran(link, "env");
  expect(stdout).toContain(`HOME=${base}`);
  expect(stdout).not.toContain("SECRET_KEY");
  await vendor.delete(id);
});
