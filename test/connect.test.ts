import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type CellSpec, DEFAULT_CELL_LIMITS, type Link, type Vendor } from "@dev/cell";
import {
  type CellUpgrades,
  type Clock,
  cellUpgrades,
  mintToken,
  type RemoteVendor,
  remoteVendor,
} from "@dev/cell/far";
import { type Action, actionId, type CellId, cellId, ok, ROOT_AGENT, turnId } from "@dev/protocol";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { DEV, read } from "./support/dev.ts";

const GUIDE = read(fileURLToPath(new URL("../docs/guides/connect.md", import.meta.url)));
const ACCOUNT = "acme";
const secret = randomBytes(32);
const token = mintToken(
  { kind: "vendor", account: ACCOUNT, untilMs: Date.now() + 3_600_000 },
  secret,
);

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

let server: Server;
let upgrades: CellUpgrades;
let url: string;
let root: string;
const running = new Set<ChildProcess>();

/** A small server: the listening half of links, and nothing else. */
beforeAll(async () => {
  upgrades = cellUpgrades({
    secretOf: async (account) => ok(account === ACCOUNT ? secret : undefined),
    verdictOf: async () => "welcome",
    clock,
  });
  server = createServer().on("upgrade", (request, socket, head) => {
    if (!upgrades.handle(request, socket, head)) socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  upgrades.close();
  server.closeAllConnections();
  server.close();
});

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "dev-connect-"));
  for (const name of ["home", "code", "code/shop", "code/lib"]) mkdirSync(join(root, name));
  writeFileSync(join(root, "home", "config.toml"), "[local]\nconfine = false\n");
  writeFileSync(join(root, "token"), `${token}\n`, { mode: 0o600 });
});
afterEach(async () => {
  for (const child of running) {
    const exited = once(child, "exit");
    if (child.exitCode === null && child.signalCode === null && child.kill("SIGKILL")) await exited;
  }
  running.clear();
  rmSync(root, { recursive: true, force: true });
});

type Connected = {
  readonly child: ChildProcess;
  readonly said: () => string;
  readonly exited: Promise<number | null>;
};

function environment(rest: Readonly<Record<string, string>> = {}): Record<string, string> {
  return {
    PATH: process.env.PATH ?? "",
    HOME: root,
    DEV_HOME: join(root, "home"),
    DEV_TOKEN_FILE: join(root, "token"),
    ...rest,
  };
}

function start(program: string, args: readonly string[], env = environment()): Connected {
  const child = spawn(program, args, { cwd: root, env, stdio: ["ignore", "inherit", "pipe"] });
  running.add(child);
  let said = "";
  child.stderr?.on("data", (chunk) => {
    said += String(chunk);
  });
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  return { child, said: () => said, exited };
}

const connect = (...args: readonly string[]): Connected =>
  start(process.execPath, [DEV, "connect", "--server", url, ...args]);

async function says(one: Connected, text: string): Promise<void> {
  while (!one.said().includes(text)) {
    if (one.child.exitCode !== null) throw new Error(`it ended: ${one.said()}`);
    await clock.sleep(10);
  }
}

function hosted(name: string): RemoteVendor {
  return remoteVendor({
    name,
    take: () => upgrades.vendor(ACCOUNT, name),
    handlers: () => ({}),
    holder: { holder: "tests", isAlive: () => false },
  });
}

let actions = 0;

function sh(script: string): Action {
  actions += 1;
  const argv = ["sh", "-c", script];
  const op = { kind: "exec", argv, cwd: ".", env: [], stdin: "", timeoutMs: 0, background: false };
  return { id: actionId(actions), agent: ROOT_AGENT, turn: turnId(1), op: op as Action["op"] };
}

const spec: CellSpec = { workspace: "", variables: {}, limits: DEFAULT_CELL_LIMITS };
const newCell = (): CellId => cellId(Date.now(), randomBytes(10));

async function linkOf(vendor: Vendor, call: "create" | "get", cell: CellId): Promise<Link> {
  return new Promise((resolve, reject) => {
    const hear = (seen: Awaited<ReturnType<Vendor["get"]>>): void => {
      if (!seen.ok) reject(new Error(seen.fault.message));
      else if (seen.value.kind === "ready") resolve(seen.value.link);
      else if (seen.value.kind === "failed") reject(new Error(seen.value.fault.message));
    };
    vendor[call](cell, spec, (value) => hear({ ok: true, value })).then(hear, reject);
  });
}

const run = (link: Link, action: Action) =>
  link.perform(action, () => undefined, new AbortController().signal);

test("a session of the server works in a directory of this machine, and in no other", async () => {
  const one = connect("--workspace", "shop=code/shop", "--workspace", "code/lib", "--name", "desk");
  await says(one, `connected to ${new URL(url).host} as desk`);
  expect(one.said()).toContain(`serves shop: ${join(root, "code/shop")}`);
  expect(one.said()).toContain("sessions that work in one directory share its files");
  const far = hosted("desk");
  expect(await far.describe()).toMatchObject({ value: { workspaces: ["shop", "lib"] } });
  const cell = newCell();
  const link = await linkOf(far.at("shop"), "create", cell);
  expect(await run(link, sh("pwd; echo made > made"))).toMatchObject({
    value: { outcome: { kind: "ok", result: { stdout: `${join(root, "code/shop")}\n` } } },
  });
  expect(readFileSync(join(root, "code/shop/made"), "utf8")).toBe("made\n");
  for (const asked of ["..", "/etc", join(root, "code/shop"), "toString", ""]) {
    expect(await far.at(asked).create(newCell(), spec, () => undefined)).toMatchObject({
      ok: false,
      fault: { code: "config", subject: asked },
    });
    await says(one, ` in ${asked}: `);
    expect(one.said()).toMatch(/refused: create c_\S+ in \S+: .*no workspace of this name/);
  }
  // The token is nobody's business in a cell.
  const looked = await run(link, sh("env"));
  expect(JSON.stringify(looked)).not.toMatch(/DEV_TOKEN|dev1\./);
  expect(await far.at("shop").delete(cell)).toMatchObject({ value: { kind: "gone" } });
});

test("a second process is refused the name that the first holds, and is told who has it", async () => {
  const first = connect("--workspace", "code/shop", "--name", "held");
  await says(first, "connected to");
  const second = connect("--workspace", "code/shop", "--name", "held");
  expect(await second.exited).toBe(1);
  expect(second.said()).toMatch(/held is held by \S+@\S+ since \d{4}-\d\d-\d\dT/);
  expect(first.child.exitCode).toBeNull();
});

test("interrupted, it ends; started again, it has its cells, and what came of their commands", async () => {
  const first = connect("--workspace", "code/shop", "--name", "again");
  await says(first, "connected to");
  const far = hosted("again");
  const cell = newCell();
  const link = await linkOf(far.at("shop"), "create", cell);
  const action = sh("echo run >> runs; until [ -e go ]; do sleep 0.02; done; echo whole");
  const lost = run(link, action);
  while (!readdirHas(join(root, "code/shop"), "runs")) await clock.sleep(10);
  first.child.kill("SIGINT");
  expect(await first.exited).toBe(0);
  expect(await lost).toMatchObject({ fault: { code: "link_lost" } });
  expect(await far.at("shop").get(cell, spec, () => undefined)).toMatchObject({
    fault: { code: "unavailable", message: expect.stringContaining("not connected") },
  });
  writeFileSync(join(root, "code/shop/go"), "");
  const second = connect("--workspace", "code/shop", "--name", "again");
  await says(second, "connected to");
  const next = await linkOf(far.at("shop"), "get", cell);
  expect([next.generation, next.spool]).toEqual([2, link.spool]);
  expect(await run(next, action)).toMatchObject({
    value: { outcome: { kind: "ok", result: { stdout: "whole\n" } } },
  });
  expect(readFileSync(join(root, "code/shop/runs"), "utf8")).toBe("run\n");
  await far.at("shop").delete(cell);
});

function readdirHas(directory: string, name: string): boolean {
  return spawnSync("test", ["-e", join(directory, name)]).status === 0;
}

test.each([
  [
    "a plain connection to another machine",
    ["--server", "http://dev.example.com"],
    {},
    "https only",
  ],
  ["a token in a URL", ["--server", "https://t:x@dev.example.com"], {}, "holds no secret"],
  ["a token in a query", ["--server", "https://dev.example.com/?token=x"], {}, "holds no secret"],
  ["no token", ["--server", "https://dev.example.com"], { DEV_TOKEN_FILE: "" }, "token"],
  ["no server", [], {}, "there is no server"],
  [
    "no such directory",
    ["--server", "https://dev.example.com", "--workspace", "nowhere"],
    {},
    "nowhere",
  ],
  ["a token as an argument", ["--token", "x"], {}, "--token"],
] as const)("%s is refused as it starts", async (_, args, env, words) => {
  const one = start(process.execPath, [DEV, "connect", ...args], environment(env));
  expect(await one.exited).toBe(2);
  expect(one.said()).toContain(words);
});

test("a token that is not the server's ends it, in the server's words", async () => {
  writeFileSync(join(root, "token"), `${token}x`);
  const one = connect("--workspace", "code/shop");
  expect(await one.exited).toBe(1);
  expect(one.said()).toContain("the token's signature is not right");
});

test("every command of the guide connects", async () => {
  const blocks = [...GUIDE.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, text = ""]) => text.trim());
  expect(blocks.length).toBeGreaterThan(1);
  const bin = fileURLToPath(new URL("../node_modules/.bin", import.meta.url));
  for (const block of blocks) {
    const command = block.replace("https://dev.example.com", url);
    const env = environment({ PATH: `${bin}:${process.env.PATH ?? ""}` });
    const one = start("sh", ["-c", `exec ${command}`], env);
    await says(one, "connected to");
    expect(one.said()).toContain(`serves shop: ${join(root, "code/shop")}`);
    one.child.kill("SIGINT");
    expect(await one.exited).toBe(0);
  }
});
