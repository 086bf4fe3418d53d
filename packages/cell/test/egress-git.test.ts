import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { NetworkRule } from "../src/egress/rule.ts";
import { scratch } from "./cell.ts";
import { type CommandPlace, commandPlace } from "./command.ts";
import { IDENTITY, makeRepositories, serveGit } from "./forge.ts";
import { allow, type Network, network, origin } from "./network.ts";

const HOST = "git.example.test";
const TOKEN = "ghp-a-token-that-nobody-in-the-cell-sees";
const WANTED = `Basic ${Buffer.from(`robot:${TOKEN}`).toString("base64")}`;
/** It would hide what we look for. */
const LOUD = { GIT_TRACE_CURL: "1", GIT_TRACE_REDACT: "0", GIT_CURL_VERBOSE: "1", GIT_TRACE: "1" };

type Forge = {
  readonly net: Network;
  readonly place: CommandPlace;
  readonly url: (path: string) => string;
  /** The repository on the server. */
  readonly bare: string;
};

/** A git server that lets nobody in without the token, and a cell's way to it. */
async function forge(rest: Partial<NetworkRule>): Promise<Forge> {
  const root = await scratch();
  const bare = makeRepositories(root);
  const { port } = await origin(serveGit(root, WANTED, TOKEN), true);
  const secret: NetworkRule["secret"] = {
    from: { kind: "variable", name: "FORGE" },
    as: { kind: "basic", user: "robot" },
  };
  const rule = allow(HOST, port, { paths: ["/team/project.git"], secret, ...rest });
  const net = await network([rule], { variables: { FORGE: TOKEN } });
  const place = await commandPlace(net);
  return { net, place, bare, url: (path) => `https://${HOST}:${port}/team/${path}` };
}

test("git clones and fetches from a private repository, and the cell never has the token", async () => {
  const { net, place, url } = await forge({});
  const cloned = await place.run(["git", "clone", url("project.git"), "work"], LOUD);
  expect(cloned.output).toContain("HTTP/1.1 200");
  expect(cloned.code).toBe(0);
  expect(readFileSync(join(place.directory, "work", "file"), "utf8")).toBe("first\n");
  const fetched = await place.run(["git", "-C", "work", "fetch", "origin"], LOUD);
  expect(fetched.code).toBe(0);
  // It was there to be found: the server said it in every answer.
  expect(cloned.output).toMatch(/x-said: [* A-Za-z]*\*\*\*\*/i);
  nowhere(place, net, cloned.output + fetched.output);
  expect(net.records.map(({ method, path, status }) => [method, path, status])).toContainEqual([
    "POST",
    "/team/project.git/git-upload-pack",
    200,
  ]);
  expect(new Set(net.records.map(({ action }) => action))).toEqual(new Set([7]));
});

test("git pushes where the rule says so, and only there", async () => {
  const writing = await forge({ push: true });
  const pushed = await pushTo(writing, "project.git");
  expect(pushed.output).toContain("main -> main");
  expect(pushed.code).toBe(0);
  expect(logOf(writing.bare)).toContain("second");
  nowhere(writing.place, writing.net, pushed.output);
  const reading = await forge({});
  const refused = await pushTo(reading, "project.git");
  expect(refused.code).not.toBe(0);
  expect(refused.output).toContain("403");
  expect(logOf(reading.bare)).not.toContain("second");
  expect(reading.net.records.at(-1)).toMatchObject({
    ...{ verdict: "refused", path: "/team/project.git/info/refs" },
    reason: "the rule for this repository does not allow to push",
  });
});

test("a push of more than fits into one piece goes through", async () => {
  const { net, place, url, bare } = await forge({ push: true });
  await place.run(["git", "clone", "-q", url("project.git"), "work"]);
  // What git cannot pack, so that it is sent in pieces.
  writeFileSync(join(place.directory, "work", "large"), Buffer.from(randomText(3_000_000)));
  await commit(place);
  const pushed = await place.run(["git", "-C", "work", "push", "origin", "main"], IDENTITY_IN);
  expect(pushed.output).toContain("main -> main");
  expect(logOf(bare)).toContain("second");
  expect(Math.max(...net.records.map(({ upBytes }) => upBytes))).toBeGreaterThan(1_000_000);
});

test("a repository that no rule names is out of reach, with the same token", async () => {
  const { net, place, url } = await forge({});
  const refused = await place.run(["git", "clone", url("other.git"), "work"], LOUD);
  expect(refused.code).not.toBe(0);
  expect(refused.output).toContain("403");
  expect(net.records.at(-1)).toMatchObject({ verdict: "refused" });
  nowhere(place, net, refused.output);
});

const IDENTITY_IN = Object.fromEntries(
  Object.entries(IDENTITY).filter(([name]) => name.startsWith("GIT_")),
) as Readonly<Record<string, string>>;

async function commit(place: CommandPlace): Promise<void> {
  await place.run(["git", "-C", "work", "add", "."], IDENTITY_IN);
  await place.run(["git", "-C", "work", "commit", "-qm", "second"], IDENTITY_IN);
}

async function pushTo(
  { place, url }: Forge,
  name: string,
): Promise<{ readonly code: number; readonly output: string }> {
  await place.run(["git", "clone", "-q", url(name), "work"]);
  writeFileSync(join(place.directory, "work", "file"), "second\n");
  await commit(place);
  return place.run(["git", "-C", "work", "push", "origin", "main"], { ...LOUD, ...IDENTITY_IN });
}

function logOf(bare: string): string {
  return execFileSync("git", ["--git-dir", bare, "log", "--oneline", "main"], { encoding: "utf8" });
}

/** Text that does not shrink much, and is the same in every run. */
function randomText(length: number): string {
  let state = 1;
  let text = "";
  while (text.length < length) {
    state = (state * 48_271) % 2_147_483_647;
    text += state.toString(36);
  }
  return text;
}

/** The token is in nothing that the cell had: what crossed, variables, files, output; nor in a record. */
function nowhere(place: CommandPlace, net: Network, output: string): void {
  const forms = [TOKEN, WANTED.slice("Basic ".length), Buffer.from(TOKEN).toString("base64")];
  const had = [
    output,
    place.crossed(),
    JSON.stringify(place.variables),
    JSON.stringify(net.records),
    ...filesBelow(place.directory).map((path) => readFileSync(path, "latin1")),
  ];
  for (const form of forms) {
    for (const text of had) expect(text.includes(form)).toBe(false);
  }
}

function filesBelow(directory: string): readonly string[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile());
}
