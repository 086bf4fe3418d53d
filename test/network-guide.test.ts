import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer as createWeb, type RequestListener } from "node:http";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TLSSocket } from "node:tls";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { createAuthority } from "../packages/cell/src/egress/authority.ts";
import { makeRepositories, npmRegistry, serveGit } from "../packages/cell/test/forge.ts";
import { hasSandbox } from "./support/crash-process.ts";
import { openDesk, read, threadOf } from "./support/dev.ts";
import { run, say } from "./support/script.ts";

const GUIDE = read(fileURLToPath(new URL("../docs/guides/network.md", import.meta.url)));
const LIMIT_MS = 180_000;
const TOKENS = { FORGE_TOKEN: "forge-token-of-the-guide", NPM_TOKEN: "npm-token-of-the-guide" };
/** Where the hosts of the guide are, for the one process that looks them up. */
const HOSTS = { "git.example.com": "127.0.0.2", "npm.example.com": "127.0.0.3" } as const;
const NAMES = `
const dns = require("node:dns/promises");
dns.lookup = async (name) => [{ address: ${JSON.stringify(HOSTS)}[name], family: 4 }];
`;

/** The guide's blocks in a language, with where its hosts are in this test. */
function blocks(language: string, ports: Readonly<Record<string, number>>): readonly string[] {
  const found = [...GUIDE.matchAll(/^```(\w+)\n(.*?)^```$/gms)];
  return found.flatMap(([, its, text = ""]) => (its === language ? [here(text, ports)] : []));
}

function here(text: string, ports: Readonly<Record<string, number>>): string {
  let changed = text;
  for (const [name, address] of Object.entries(HOSTS)) {
    const where = `ports = [${ports[name]}]\naddresses = ["${address}"]`;
    changed = changed
      .replaceAll(`https://${name}`, `https://${name}:${ports[name]}`)
      .replaceAll(`host = "${name}"`, `host = "${name}"\n${where}`);
  }
  return changed;
}

const authority = createAuthority(Date.now());

/** One of the hosts, over TLS, on loopback; its port. */
async function serving(name: keyof typeof HOSTS, listener: RequestListener): Promise<number> {
  const host = { kind: "name", name } as const;
  const secureContext = authority.contextOf(host, Date.now());
  const web = createWeb(listener);
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    const secured = new TLSSocket(socket, { isServer: true, secureContext });
    secured.on("error", () => socket.destroy());
    web.emit("connection", secured);
  });
  await new Promise<void>((resolve) => server.listen(0, HOSTS[name], resolve));
  onTestFinished(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  const bound = server.address();
  if (bound === null || typeof bound === "string") throw new Error("no port");
  return bound.port;
}

test("the recipes of the guide work in a cell, and no token is anywhere but where it was", {
  timeout: LIMIT_MS,
}, async (context) => {
  context.skip(!hasSandbox, "bubblewrap does not work here");
  const root = mkdtempSync(join(tmpdir(), "dev-network-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const ports = await servers(root);
  const commands = blocks("sh", ports).flatMap((text) => text.trim().split("\n"));
  expect(commands.length).toBe(3);
  const desk = await openDesk([...commands.map((command) => say("", run(command))), say("done")]);
  onTestFinished(() => desk.close());
  const certificates = join(desk.root, "origins.pem");
  writeFileSync(certificates, authority.certificate);
  const config = join(desk.home, "config.toml");
  const settings = [read(config), `[network]\ncertificates = ["${certificates}"]`];
  writeFileSync(config, [...settings, ...blocks("toml", ports)].join("\n"));
  writeFileSync(join(root, "names.cjs"), NAMES);
  const env = { ...TOKENS, NODE_OPTIONS: `--require=${join(root, "names.cjs")}` };
  const ran = await desk.run(["exec", "--json", "--mode", "full", "--cell", "bubblewrap", "go"], {
    env,
  });
  const items = ran.lines.filter(({ type }) => type === "item.completed").map(({ item }) => item);
  const outputs = items.filter(({ type }) => type === "command_execution");
  expect(
    outputs.map(({ exit_code }) => exit_code),
    JSON.stringify(outputs),
  ).toEqual([0, 0, 0]);
  const ledger = await desk.run(["ledger", threadOf(ran)], { env: TOKENS });
  expect(ledger.stdout).toMatch(
    /network +POST git\.example\.com:\d+\/team\/project\.git\/git-receive-pack/,
  );
  expect(ledger.stdout).toMatch(/network +GET npm\.example\.com:\d+\/@team%2ftool {2}200, /);
  expect(ledger.stdout).not.toContain("of no known action");
  const said = [ran.stdout, ran.stderr, ledger.stdout, JSON.stringify(desk.model.requests)];
  const kept = filesBelow(desk.root).map((path) => readFileSync(path, "latin1"));
  for (const text of [...said, ...kept]) {
    for (const token of Object.values(TOKENS)) expect(text.includes(token)).toBe(false);
  }
});

/** A git server and a registry, each of which wants its token. */
async function servers(root: string): Promise<Readonly<Record<string, number>>> {
  const pair = Buffer.from(`x-access-token:${TOKENS.FORGE_TOKEN}`).toString("base64");
  makeRepositories(root);
  const git = await serving("git.example.com", serveGit(root, `Basic ${pair}`, TOKENS.FORGE_TOKEN));
  let port = 0;
  const answer = npmRegistry(root, "@team/tool", () => {
    return `https://npm.example.com:${port}`;
  });
  port = await serving("npm.example.com", (request, response) => {
    const isKnown = request.headers.authorization === `Bearer ${TOKENS.NPM_TOKEN}`;
    const body = isKnown ? answer(decodeURIComponent(request.url ?? "")) : null;
    response.writeHead(isKnown ? (body === null ? 404 : 200) : 401);
    response.end(body ?? "no");
  });
  return { "git.example.com": git, "npm.example.com": port };
}

function filesBelow(directory: string): readonly string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .map((name) => join(directory, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile() === true);
}
