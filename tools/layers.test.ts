import { isBuiltin } from "node:module";
import { posix } from "node:path";
import { expect, test } from "vitest";
import { type Import, importsOf } from "./imports.ts";
import { filesOf, planted, readTree, type Tree } from "./tree.ts";

/** Who may import whom. Each package may also import what those that it names may. */
const TABLE: Readonly<Record<string, readonly string[]>> = {
  protocol: [],
  core: ["protocol"],
  workspace: ["protocol"],
  store: ["protocol"],
  model: ["protocol"],
  host: ["core"],
  cell: ["workspace"],
  session: ["host", "store", "cell", "model"],
  kai: ["model"],
  cli: ["session", "kai"],
};

/** These run on any host, even one that has no Node.js. */
const PURE: readonly string[] = ["protocol", "core"];

/** It runs where nobody is trusted: nothing that holds a credential or decides may be in it. */
const AGENT = "packages/cell/src/agent/main.ts";
const AGENT_NEVER: readonly string[] = ["store", "model", "session", "host", "core"];

const tree = readTree();
/** Only what is declared: what is planted here is all that can be found. */
const manifests: Tree = new Map(filesOf(tree, /^packages\/[^/]+\/package\.json$/));

test("every package declares and imports only what the table lets it", () => {
  expect(breaches(tree)).toEqual([]);
});

test("the cell's agent reaches nothing that holds a credential or decides", () => {
  expect(tree.has(AGENT)).toBe(true);
  const found = reach(tree, AGENT).map(packageOf);
  expect(found.filter((name) => AGENT_NEVER.includes(name))).toEqual([]);
});

test.each([
  ["a Node.js module in the core", "core", 'import "node:fs";', "node:fs is not pure"],
  ["one without its prefix", "protocol", 'import "fs";', "fs is not pure"],
  [
    "a Node.js type in the core",
    "core",
    'type F = import("node:fs").Stats;',
    "node:fs is not pure",
  ],
  ["an upper layer", "store", 'import "@dev/session";', "@dev/session is not declared"],
  ["a re-export of an upper layer", "cell", 'export * from "@dev/store";', "is not declared"],
  ["an undeclared library", "store", 'import "valibot";', "valibot is not declared"],
  ["a library's inner file", "store", 'import "valibot/a/b";', "valibot is not declared"],
  ["a scoped library", "store", 'import "@x/y/z";', "@x/y is not declared"],
  ["another package by its path", "cell", 'import "../../store/src/index.ts";', "leaves packages"],
  ["the tools", "cell", 'await import("../../../tools/tree.ts");', "leaves packages"],
  ["its own tests", "cell", 'import "../test/x.ts";', "leaves packages"],
  ["the simulator", "session", 'import "@dev/sim";', "@dev/sim is not declared"],
  ["a name that is computed", "cell", "await import(String(1));", "cannot be read"],
])("an import of %s is found", (_, name, text, found) => {
  const [breach, ...others] = breaches(planted(manifests, `packages/${name}/src/planted.ts`, text));
  expect(breach).toContain(`packages/${name}/src/planted.ts:1`);
  expect(breach).toContain(found);
  expect(others).toEqual([]);
});

test("a declared dependency on an upper layer is found", () => {
  const manifest = JSON.stringify({ dependencies: { "@dev/protocol": "1", "@dev/session": "1" } });
  expect(breaches(planted(manifests, "packages/host/package.json", manifest))).toContain(
    "packages/host/package.json: host may not depend on @dev/session",
  );
});

test("a test that imports the simulator is found", () => {
  const path = "packages/cell/test/planted.test.ts";
  const found = breaches(planted(manifests, path, 'import "@dev/sim";'));
  expect(found).toEqual([`${path}:1: nothing may import @dev/sim`]);
});

test("a package without a row is found", () => {
  expect(breaches(planted(manifests, "packages/new/package.json", "{}"))).toEqual([
    "packages/new/package.json: the table has no row for new",
  ]);
});

test("an agent that reaches the store through another package is found", () => {
  const first = planted(tree, AGENT, 'import "../planted.ts";');
  const second = planted(first, "packages/cell/src/planted.ts", 'export * from "@dev/workspace";');
  const third = planted(second, "packages/workspace/src/index.ts", 'import "@dev/store";');
  const fourth = planted(third, "packages/store/src/index.ts", 'import "@dev/core";');
  const found = reach(fourth, AGENT).map(packageOf);
  expect(found).toContain("store");
  expect(found).toContain("core");
});

function breaches(tree: Tree): readonly string[] {
  return filesOf(tree, /^packages\/[^/]+\/package\.json$/).flatMap(([path, text]) => {
    const name = packageOf(path);
    if (!Object.hasOwn(TABLE, name)) return [`${path}: the table has no row for ${name}`];
    const dependencies = Object.keys(JSON.parse(text).dependencies ?? {});
    return [
      ...dependencies
        .filter((dependency) => dependency.startsWith("@dev/"))
        .filter((dependency) => !below(name).includes(dependency.slice("@dev/".length)))
        .map((dependency) => `${path}: ${name} may not depend on ${dependency}`),
      ...eachImport(tree, `packages/${name}/src/`, (path, from) =>
        sourceBreach(path, from, dependencies),
      ),
      ...eachImport(tree, `packages/${name}/test/`, testBreach),
    ];
  });
}

function eachImport(
  tree: Tree,
  folder: string,
  breachOf: (path: string, from: string) => string | undefined,
): readonly string[] {
  const files = [...tree].filter(([path]) => path.startsWith(folder) && isSource(path));
  return files.flatMap(([path, text]) =>
    importsOf(path, text).flatMap(({ from, line }: Import) => {
      const breach = breachOf(path, from);
      return breach === undefined ? [] : [`${path}:${line}: ${breach}`];
    }),
  );
}

function sourceBreach(
  path: string,
  from: string,
  dependencies: readonly string[],
): string | undefined {
  const name = packageOf(path);
  if (from === "") return "an import whose name is computed cannot be read";
  if (from.startsWith(".")) {
    const home = `packages/${name}/src/`;
    return resolved(path, from).startsWith(home) ? undefined : `${from} leaves ${home}`;
  }
  if (isBuiltin(from)) return PURE.includes(name) ? `${from} is not pure` : undefined;
  const dependency = dependencyOf(from);
  return dependencies.includes(dependency)
    ? undefined
    : `${dependency} is not declared in packages/${name}/package.json`;
}

function testBreach(path: string, from: string): string | undefined {
  if (dependencyOf(from) === "@dev/sim") return "nothing may import @dev/sim";
  const home = `packages/${packageOf(path)}/`;
  const isInside = !from.startsWith(".") || resolved(path, from).startsWith(home);
  return isInside ? undefined : `${from} leaves ${home}`;
}

/** The files that an entry imports, directly or not, from this repository. */
function reach(tree: Tree, entry: string): readonly string[] {
  const reached = new Set([entry]);
  for (const path of reached) {
    for (const { from } of importsOf(path, tree.get(path) ?? "")) {
      if (from.startsWith(".")) reached.add(resolved(path, from));
      if (from.startsWith("@dev/")) reached.add(entryOf(tree, from));
    }
  }
  return [...reached];
}

/** The source of what a package exports under a name such as `@dev/model` or `@dev/model/scripted`. */
function entryOf(tree: Tree, from: string): string {
  const [, name = "", ...rest] = from.split("/");
  const { exports } = JSON.parse(tree.get(`packages/${name}/package.json`) ?? "{}");
  return posix.join("packages", name, exports?.[[".", ...rest].join("/")]?.source ?? "absent");
}

/** The packages that one may import. */
function below(name: string): readonly string[] {
  const direct = TABLE[name] ?? [];
  return [...direct, ...direct.flatMap(below)];
}

function packageOf(path: string): string {
  return path.split("/")[1] ?? "";
}

function dependencyOf(from: string): string {
  return from.split("/", from.startsWith("@") ? 2 : 1).join("/");
}

function resolved(path: string, from: string): string {
  return posix.join(posix.dirname(path), from);
}

function isSource(path: string): boolean {
  return /\.[cm]?[jt]s$/.test(path);
}
