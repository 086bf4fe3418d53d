import { posix } from "node:path";
import { lineAt, type Node, nameOf, nodeAt, nodesAt, nodesIn, parse } from "./syntax.ts";
import { filesOf, type Tree } from "./tree.ts";

/** A place, and what is wrong with it: `path:line: what` or `path: what`. */
export type Breach = string;
export type Rule = (tree: Tree) => readonly Breach[];

/** Rules of style that neither the compiler nor the linter checks, by what they say. */
export const RULES: Readonly<Record<string, Rule>> = {
  "a long file argues for itself": long,
  "a file is named for a thing": named,
  "a package has a short README": documented,
  "a README's example is run by a test": exemplified,
  "no text names a place": placed,
  "nothing is left for later": deferred,
  "a skip carries a reason": skipped,
  "no test runs alone": alone,
  "no class inherits or is decorated": inherited,
  "time and chance are arguments": ambient,
};

const FILE_LIMIT_LINES = 400;
const README_LIMIT_LINES = 80;

const CODE = /\.[cm]?[jt]sx?$/;
const TEST = /(^|\/)test\/|\.test\.ts$/;
/** What the packages and the simulator are made of. */
const SOURCE = /^(packages\/[^/]+|sim)\/src\/.*\.ts$/;
/** The files that start a process, where time and chance come in. */
const START = /(^|[/-])main\.ts$/;

function long(tree: Tree): readonly Breach[] {
  return filesOf(tree, CODE)
    .filter(([path, text]) => !TEST.test(path) && text.split("\n").length - 1 > FILE_LIMIT_LINES)
    .filter(([, text]) => !/^(\/\/|\/\*)[^;]*?\blong because\b/i.test(text))
    .map(
      ([path]) => `${path}: over ${FILE_LIMIT_LINES} lines, without a first comment "Long because"`,
    );
}

function named(tree: Tree): readonly Breach[] {
  const empty = /^(.*[-_.])?(utils?|helpers?|types?|commons?|managers?|misc)$/i;
  return filesOf(tree, CODE).flatMap(([path]) =>
    path
      .replace(CODE, "")
      .split("/")
      .filter((part) => empty.test(part))
      .map((part) => `${path}: ${part} says nothing about what is in it`),
  );
}

function documented(tree: Tree): readonly Breach[] {
  const absent = filesOf(tree, /^(packages\/[^/]+|sim)\/package\.json$/)
    .filter(([path]) => !tree.has(`${posix.dirname(path)}/README.md`))
    .map(([path]) => `${path}: the package has no README.md`);
  const big = filesOf(tree, /^(packages\/[^/]+|sim)\/README\.md$/)
    .filter(([, text]) => text.trimEnd().split("\n").length > README_LIMIT_LINES)
    .map(([path]) => `${path}: over ${README_LIMIT_LINES} lines`);
  return [...absent, ...big];
}

/** The code that a package's README shows stands, word for word, in one of its tests. */
function exemplified(tree: Tree): readonly Breach[] {
  return filesOf(tree, /^(packages\/[^/]+|sim)\/README\.md$/)
    .filter(([path, text]) => {
      const tests = filesOf(tree, new RegExp(`^${posix.dirname(path)}/test/.*\\.ts$`));
      const shown = words(text.match(/```ts\n(.*?)```/s)?.[1] ?? "");
      return shown === "" || !tests.some(([, code]) => words(code).includes(shown));
    })
    .map(([path]) => `${path}: its example is in no test of the package`);
}

/** Code without what the formatter decides, and without what it imports. */
function words(code: string): string {
  return code.replaceAll(/^import [^;]*;$/gm, "").replaceAll(/\s+|,(?=\s*[})\]])/g, "");
}

/** A place on one machine, or the host that a registry happens to have. */
function placed(tree: Tree): readonly Breach[] {
  // Put together here, so that this file does not hold what it looks for.
  const places = [
    `(?<![\\w.@-])/${"work"}/`,
    `\\.\\./${"shared"}\\b`,
    ...["npmjs", "yarnpkg", "npmmirror"].map((name) => `\\b(registry|mirrors?)\\.${name}\\.\\w+`),
    ...["npm.pkg.github", "files.pythonhosted", "deb.debian", "static.crates"].map(escaped),
  ];
  return matches(tree, new RegExp(places.join("|"), "g"), "names a place");
}

function deferred(tree: Tree): readonly Breach[] {
  const words = [
    ["TO", "DO"],
    ["FIX", "ME"],
    ["X", "XX"],
  ].map((parts) => parts.join(""));
  return matches(tree, new RegExp(`\\b(${words.join("|")})\\b`, "g"), "is left for later");
}

/** Only `context.skip("why")` and `context.skip(condition, "why")` carry the reason to the report. */
function skipped(tree: Tree): readonly Breach[] {
  return calls(tree, TEST, (call, property, object) => {
    const isStatic = /^(test|it|describe|suite)$/.test(object);
    if (isStatic && /^(skip|skipIf|runIf|todo)$/.test(property)) return true;
    if (property !== "skip" || isStatic) return false;
    const reason = nodesAt(call, "arguments").at(-1);
    return reason?.type !== "TemplateLiteral" && !nameOfText(reason);
  }).map((place) => `${place}: skip inside the test, by context.skip(condition, "why")`);
}

function alone(tree: Tree): readonly Breach[] {
  return calls(tree, TEST, (_, property, object) => {
    return property === "only" && /^(test|it|describe|suite)$/.test(object);
  }).map((place) => `${place}: the other tests would not run`);
}

function inherited(tree: Tree): readonly Breach[] {
  return nodes(tree, SOURCE, (node) => {
    return nodeAt(node, "superClass") !== undefined || nodesAt(node, "decorators").length > 0;
  }).map((place) => `${place}: a class that inherits, or a decorator`);
}

function ambient(tree: Tree): readonly Breach[] {
  const reads = ["Date.now", "Math.random", "performance.now"];
  return nodes(tree, SOURCE, (node) => {
    if (node.type === "NewExpression") {
      return nameOf(nodeAt(node, "callee")) === "Date" && nodesAt(node, "arguments").length === 0;
    }
    const [object, property] = [nodeAt(node, "object"), nodeAt(node, "property")];
    return reads.includes(`${nameOf(object)}.${nameOf(property)}`);
  })
    .filter((place) => !START.test(place.replace(/:\d+$/, "")))
    .map((place) => `${place}: the time or a random number that is not an argument`);
}

/** Each call of a property in the files that match, as `path:line`, where `isBreach` says so. */
function calls(
  tree: Tree,
  pattern: RegExp,
  isBreach: (call: Node, property: string, object: string) => boolean,
): readonly string[] {
  return nodes(tree, pattern, (node) => {
    const callee = node.type === "CallExpression" ? nodeAt(node, "callee") : undefined;
    if (callee?.type !== "MemberExpression") return false;
    const object = nameOf(nodeAt(callee, "object")) ?? "";
    return isBreach(node, nameOf(nodeAt(callee, "property")) ?? "", object);
  });
}

function nodes(tree: Tree, pattern: RegExp, isBreach: (node: Node) => boolean): readonly string[] {
  const files = filesOf(tree, pattern).filter(([path]) => CODE.test(path) && !isSample(path));
  return files.flatMap(([path, text]) =>
    [...nodesIn(parse(path, text).program)]
      .filter(isBreach)
      .map((node) => `${path}:${lineAt(text, node.start)}`),
  );
}

function matches(tree: Tree, pattern: RegExp, what: string): readonly Breach[] {
  return [...tree].flatMap(([path, text]) =>
    [...text.matchAll(pattern)].map(([word, ...rest]) => {
      const offset = rest.find((each) => typeof each === "number") ?? 0;
      return `${path}:${lineAt(text, offset)}: ${word} ${what}`;
    }),
  );
}

function nameOfText(node: Node | undefined): string | undefined {
  return node?.type === "Literal" ? nameOf(node) : undefined;
}

function isSample(path: string): boolean {
  return path.startsWith("examples/");
}

function escaped(host: string): string {
  return `\\b${host.replaceAll(".", "\\.")}\\.\\w+`;
}
