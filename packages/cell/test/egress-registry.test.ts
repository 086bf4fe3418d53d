import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { NetworkRule } from "../src/egress/rule.ts";
import { scratch } from "./cell.ts";
import { type CommandPlace, commandPlace } from "./command.ts";
import { npmRegistry } from "./forge.ts";
import { allow, type Network, network, origin } from "./network.ts";

const HOST = "registry.example.test";
const TOKEN = "npm-token-that-nobody-in-the-cell-sees";
const NAME = "@team/tool";

type Registry = { readonly net: Network; readonly place: CommandPlace; readonly port: number };

/** A registry that lets nobody in without the token, and a cell's way to it. */
async function registry(
  paths: readonly string[],
  serve: (port: () => number, root: string) => (url: string) => Buffer | string | null,
): Promise<Registry> {
  const root = await scratch();
  let port = 0;
  const answer = serve(() => port, root);
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    const said = `you said ${request.headers.authorization}`;
    if (request.headers.authorization !== `Bearer ${TOKEN}`) {
      response.writeHead(401, { "x-said": said });
      response.end(said);
      return;
    }
    const body = answer(decodeURIComponent(request.url ?? ""));
    const type = typeof body === "string" && body.startsWith("<") ? "text/html" : undefined;
    response.writeHead(body === null ? 404 : 200, {
      "x-said": said,
      ...(type !== undefined && { "content-type": type }),
    });
    response.end(body ?? said);
  };
  ({ port } = await origin(listener, true));
  const secret: NetworkRule["secret"] = {
    from: { kind: "variable", name: "NPM" },
    as: { kind: "bearer" },
  };
  const net = await network([allow(HOST, port, { paths, secret })], { variables: { NPM: TOKEN } });
  return { net, place: await commandPlace(net), port };
}

test("npm installs from a private registry, and the cell never has the token", async () => {
  const { net, place, port } = await registry(["/@team"], (port, root) =>
    npmRegistry(root, NAME, () => `https://${HOST}:${port()}`),
  );
  writeFileSync(join(place.directory, "package.json"), '{"name":"user","version":"1.0.0"}');
  const done = await place.run([
    ...["npm", "install", NAME, "--no-audit", "--no-fund", "--loglevel", "silly"],
    ...["--registry", `https://${HOST}:${port}/`, "--fetch-retries", "0"],
    ...["--cache", join(place.directory, "cache")],
  ]);
  expect(done.output).toContain("added 1 package");
  expect(done.code).toBe(0);
  const ran = await place.run(["node", "-p", `require(${JSON.stringify(NAME)})`]);
  expect(ran.output).toContain("from the registry");
  // It also asks whether there is a newer npm.
  const own = net.records.filter(({ path }) => path !== "/npm");
  expect(own.map(({ path, verdict }) => [path, verdict])).toEqual([
    ["/@team%2ftool", "allowed"],
    ["/@team/tool/-/tool-1.2.3.tgz", "allowed"],
  ]);
  nowhere(place, net, done.output);
});

test("npm cannot publish where the rule only lets it read", async () => {
  const { net, place, port } = await registry(["/@team"], (port, root) =>
    npmRegistry(root, NAME, () => `https://${HOST}:${port()}`),
  );
  writeFileSync(join(place.directory, "package.json"), `{"name":"${NAME}","version":"9.9.9"}`);
  const at = `//${HOST}:${port}/`;
  // A token of the command's own, without which npm does not even try.
  writeFileSync(join(place.directory, ".npmrc"), `registry=https:${at}\n${at}:_authToken=mine\n`);
  const cache = join(place.directory, "cache");
  const done = await place.run(["npm", "publish", "--fetch-retries", "0", "--cache", cache]);
  expect(done.code).not.toBe(0);
  expect(net.records.at(-1)).toMatchObject({ method: "PUT", verdict: "refused" });
  nowhere(place, net, done.output);
});

const python = program(["python3", "-m", "pip", "--version"]);

test("pip installs from a private index, and the cell never has the token", async (context) => {
  context.skip(!python, "python3 has no pip here");
  const { net, place, port } = await registry(["/simple", "/files"], (_, root) => {
    const wheel = join(root, "tool-1.0-py3-none-any.whl");
    execFileSync("python3", ["-c", WHEEL, wheel]);
    const bytes = readFileSync(wheel);
    return (url) => {
      if (url === "/files/tool-1.0-py3-none-any.whl") return bytes;
      if (url !== "/simple/tool/") return null;
      return '<html><a href="/files/tool-1.0-py3-none-any.whl">tool-1.0-py3-none-any.whl</a></html>';
    };
  });
  const done = await place.run([
    ...["python3", "-m", "pip", "install", "-vvv", "--no-cache-dir", "--retries", "0"],
    ...["--disable-pip-version-check", "--target", join(place.directory, "site")],
    ...["--index-url", `https://${HOST}:${port}/simple/`, "tool"],
  ]);
  expect(done.output).toContain("Successfully installed tool-1.0");
  expect(readFileSync(join(place.directory, "site", "tool.py"), "utf8")).toBe("here = True\n");
  nowhere(place, net, done.output);
});

const WHEEL = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as z:
    z.writestr("tool.py", "here = True\\n")
    info = "tool-1.0.dist-info/"
    z.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: tool\\nVersion: 1.0\\n")
    z.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    z.writestr(info + "RECORD", "tool.py,,\\n" + info + "METADATA,,\\n" + info + "WHEEL,,\\n" + info + "RECORD,,\\n")
`;

function program([name = "", ...argv]: readonly string[]): boolean {
  try {
    execFileSync(name, argv, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** The token is in nothing that the cell had: what crossed, variables, files, output; nor in a record. */
function nowhere(place: CommandPlace, net: Network, output: string): void {
  const had = [
    ...[output, place.crossed(), JSON.stringify(place.variables), JSON.stringify(net.records)],
    ...readdirSync(place.directory, { recursive: true, encoding: "utf8" })
      .map((name) => join(place.directory, name))
      .filter((path) => statSync(path).isFile())
      .map((path) => readFileSync(path, "latin1")),
  ];
  for (const text of had) expect(text.includes(TOKEN)).toBe(false);
}
