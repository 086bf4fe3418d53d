import { execFileSync } from "node:child_process";
import { rolldown } from "rolldown";
import { expect, test } from "vitest";
import { impurities } from "./impurity.ts";
import { ROOT } from "./tree.ts";

const SHARED = "a change of the module's own planted";
const ENTRY = `${ROOT}packages/core/src/index.ts`;

test("the core is pure: it reads no clock, no chance, no host and no locale", async () => {
  const bundle = await bundleCore("", true);
  expect(impurities(bundle)).toEqual([]);
  // An empty bundle would be pure as well.
  expect(bundle).toContain("function");
});

test.each([
  ["export const planted = Date.now();", "Date"],
  ["export const planted = new Date();", "Date"],
  ["export const planted = Math.random();", "Math.random"],
  ['export const planted = Math["random"]();', "Math[...]"],
  ["export const { random } = Math;", "Math as a value"],
  ["export const planted = () => fetch('http://localhost');", "fetch"],
  ['import "node:fs";', "an import"],
  ['export { readFileSync } from "node:fs";', "an import"],
  ['export const planted = () => import("node:fs");', "an import"],
  ["export const planted = import.meta.url;", "import.meta"],
  ["export const planted = globalThis;", "globalThis"],
  ['export const planted = Reflect.get({}, "random");', "Reflect"],
  ["export const planted = setTimeout(() => {}, 1);", "setTimeout"],
  ["export const planted = () => process.env;", "process"],
  ["export const planted = Promise.resolve(1);", "Promise"],
  ["export const planted = async () => 1;", "an async function"],
  ["export const planted = await 1;", "await"],
  ['export const planted = eval("1");', "eval"],
  ['export const planted = (0, eval)("1");', "eval"],
  ['export const planted = new Function("return 1");', "Function"],
  ['export const planted = [].constructor.constructor("return 1")();', ".constructor"],
  ["export const planted = [].map['constructor'];", ".constructor"],
  ["export const { constructor: planted } = [];", ".constructor"],
  ["export const planted = new Error('x').stack;", ".stack"],
  ["export const planted = 'a'.localeCompare('b');", ".localeCompare"],
  ["export const planted = new Intl.NumberFormat();", "Intl"],
  ["export const planted = new WeakRef({});", "WeakRef"],
  ["export const planted = new TextEncoder();", "TextEncoder"],
  ["export function planted(now = Date) { var Date = 1; return [now, Date]; }", "Date"],
  ["export function planted() { { const Date = 1; void Date; } return Date; }", "Date"],
  ["let planted = 0; export const count = () => ++planted;", SHARED],
  ["let planted; export function keep(text) { planted = text; }", SHARED],
  ["let planted; export function keep(all) { [planted] = all; }", SHARED],
  ["let planted; export function keep(all) { for (planted of all); }", SHARED],
  ["const planted = { last: 0 }; export const keep = (id) => { planted.last = id; };", SHARED],
  ["const planted = []; export const keep = (id) => planted.push(id);", SHARED],
  ["const planted = new Map(); export const keep = (id) => planted.set(id, 1);", SHARED],
  [
    "const planted = { a: { b: new Set() } }; export const keep = () => planted.a.b.add(1);",
    SHARED,
  ],
  ["const planted = {}; export const keep = (id) => Object.assign(planted, { id });", SHARED],
  ["const planted = { a: 1 }; export const drop = () => delete planted.a;", SHARED],
  ["const planted = /a/g; export const find = (text) => planted.test(text);", SHARED],
  ["let planted = 0; function unused() { planted += Date.now(); }", SHARED],
  ["function unused() { return Date.now(); }", "Date"],
])("in a copy of the core, %s is found", async (text, found) => {
  const [before, after] = await Promise.all([bundleCore(""), bundleCore(text)]);
  const named = impurities(after).map((impurity) => impurity.replace(/^\d+: /, ""));
  const old = impurities(before).map((impurity) => impurity.replace(/^\d+: /, ""));
  const countIn = (names: readonly string[]) => names.filter((name) => name === found).length;
  expect(countIn(named)).toBeGreaterThan(countIn(old));
});

test.each([
  "export const planted = (Date: number): number => Date + 1;",
  "const cache = new WeakMap(); export const planted = (key: object) => cache.set(key, 1);",
  "let planted = 0; export const grown = (planted: number) => { planted += 1; return planted; };",
  "const planted = [1]; export const other = () => { const planted = []; planted.push(1); return planted; };",
  "const planted = /a/g; export const other = (text: string) => text.replace(planted, '');",
  "export function planted() { var eval1 = 1; for (const fetch of [1]) eval1 += fetch; return eval1; }",
  "export function planted() { try { return 1; } catch (process) { return process; } }",
  "export const planted = { Date: 1, fetch() { return this.Date; } };",
  "export class planted { now = Math.floor(1.5); static { const Date = 1; void Date; } }",
  "export const planted = ({ a: { b: [Date = 1] } }, ...fetch) => [Date, fetch];",
  "export function planted() { fetch: for (;;) break fetch; return Date; function Date() {} }",
])("in a copy of the core, %s is no impurity", async (text) => {
  expect(impurities(await bundleCore(text)).length).toBe(impurities(await bundleCore("")).length);
});

test.each(["core", "protocol"])("%s compiles without the types of any host", (name) => {
  const args = ["--showConfig", "-p", `packages/${name}`];
  const shown = execFileSync(`${ROOT}node_modules/.bin/tsc`, args, { cwd: ROOT, encoding: "utf8" });
  expect(JSON.parse(shown).compilerOptions).toMatchObject({ types: [], lib: ["es2023"] });
});

/** The core as one module with what it imports, and with `text` at the end of its first file. */
async function bundleCore(text: string, treeshake = false): Promise<string> {
  const bundle = await rolldown({
    input: ENTRY,
    platform: "neutral",
    logLevel: "silent",
    resolve: { conditionNames: ["source", "import", "default"] },
    treeshake,
    plugins: [
      {
        name: "plant",
        transform: (code, id) => (id === ENTRY ? `${code}\n${text}\n` : undefined),
      },
    ],
  });
  const { output } = await bundle.generate({ format: "esm", minify: false });
  await bundle.close();
  return output[0].code;
}
