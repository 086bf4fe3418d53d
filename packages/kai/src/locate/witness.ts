import type { Failure, Report } from "../report/report.ts";
import { ancestor, within } from "../syntax/piece.ts";
import type { Source } from "../syntax/source.ts";
import { words } from "./word.ts";

/** What the failing tests say: their own text, their names, and what the runner says of them. */
export type Witness = {
  readonly text: string;
  readonly message: string;
  readonly nameWords: ReadonlySet<string>;
  /** Of their files, with nothing of what makes a name a test's. */
  readonly stems: ReadonlySet<string>;
  /** All words of their files in lower case, as a file could be named by them. */
  readonly aroundWords: ReadonlySet<string>;
};

export const WITNESS_LIMITS = { failureCount: 12, testChars: 8_000, aroundChars: 200_000 } as const;

/** The files of the tests that failed, as far as they are known; the outermost frame is in the test. */
export function testFilesOf(report: Report): ReadonlySet<string> {
  const files = report.failures.map((failure) => failure.file ?? failure.frames.at(-1)?.file);
  return new Set(files.filter((file) => file !== undefined));
}

/** Whether a file is there to test others, by its name or its folder's. */
export function isTestFile(file: string): boolean {
  const [name = "", ...folders] = file.split("/").reverse();
  return TEST_NAME.test(name) || folders.some((folder) => TEST_FOLDER.test(folder));
}

/** Whether a file is another version of a test: of the same name as one, and with most of its functions. */
export function isTwin(source: Source, tests: readonly Source[]): boolean {
  const own = new Set(source.functions.map(({ qualified }) => qualified));
  return tests.some(({ file, functions }) => {
    if (baseOf(file) !== baseOf(source.file) || functions.length === 0) return false;
    const same = functions.filter(({ qualified }) => own.has(qualified)).length;
    return same * 2 > functions.length;
  });
}

function baseOf(file: string): string {
  return file.slice(file.lastIndexOf("/") + 1);
}

export function witnessOf(report: Report, tests: readonly Source[]): Witness {
  const failures = report.failures.slice(0, WITNESS_LIMITS.failureCount);
  const files = testFilesOf(report);
  const own = tests.filter((source) => files.has(source.file));
  const texts = new Set<string>();
  for (const failure of failures) {
    const source = own.find(({ file }) => file === (failure.file ?? failure.frames.at(-1)?.file));
    if (source !== undefined) for (const text of testTexts(failure, source)) texts.add(text);
  }
  return {
    text: [...texts].join("\n"),
    message: failures.map(({ test, message }) => `${test}\n${message}`).join("\n"),
    nameWords: new Set(failures.flatMap(({ test }) => words(titleOf(test)))),
    stems: new Set([...files].map(stemOf)),
    aroundWords: new Set(own.flatMap(({ text }) => fileWords(text))),
  };
}

function fileWords(text: string): readonly string[] {
  const said = text.slice(0, WITNESS_LIMITS.aroundChars).toLowerCase();
  return [/\w+/g, /\w+(?:[.-]\w+)+/g].flatMap((shape) => said.match(shape) ?? []);
}

/** A file's name with no folder, ending, or sign that it is a test's, in lower case. */
export function stemOf(file: string): string {
  const name = baseOf(file).replace(/\.[^.]*$/, "");
  const bare = name.replace(/^(tests?|spec)[._-]+|[._-](tests?|spec)$/gi, "");
  return bare.replace(/(?<=[a-z0-9])(Tests?|Spec|IT)$/, "").toLowerCase();
}

const TEST_NAME =
  /^(test_.*|.*_test|.*[.-](test|spec)|conftest|tests?|.*Tests?|.*Spec|.*IT)\.[a-z]+$/;
const TEST_FOLDER = /^(tests?|__tests__|specs?|testing|test-.*|e2e)$/;

/** The text of a test, and of those functions of its file that it calls. */
function testTexts(failure: Failure, source: Source): readonly string[] {
  const range = testRange(failure, source);
  if (range === null) return [source.text.slice(0, WITNESS_LIMITS.testChars)];
  const text = source.text.slice(range.from, range.to).slice(0, WITNESS_LIMITS.testChars);
  const called = source.functions.filter(
    (site) => !(site.from <= range.from && range.to <= site.to) && text.includes(`${site.name}(`),
  );
  return [
    text,
    ...called.map(({ from, to }) => source.text.slice(from, to).slice(0, WITNESS_LIMITS.testChars)),
  ];
}

type Range = { readonly from: number; readonly to: number };

/** Found by its name, or by its title; otherwise what is around the line in it that failed. */
function testRange(failure: Failure, source: Source): Range | null {
  const title = titleOf(failure.test);
  return (
    (title === "" ? null : named(title, source)) ??
    source.functions.findLast((site) =>
      failure.frames.some(({ file, line }) => file === source.file && isIn(site, line)),
    ) ??
    null
  );
}

function named(title: string, source: Source): Range | null {
  const site = source.functions.findLast(({ name }) => name === title);
  if (site !== undefined) return site;
  for (const piece of within(source.root)) {
    if (piece.kind !== "string") continue;
    const said = source.text.slice(piece.from, piece.to).replace(/^[`'"]+|[`'"]+$/g, "");
    const call = titleOf(said) === title ? ancestor(piece, ["call"]) : null;
    if (call !== null) return call;
  }
  return null;
}

function isIn(
  site: { readonly firstLine: number; readonly lastLine: number },
  line: number,
): boolean {
  return site.firstLine <= line && line <= site.lastLine;
}

/** The innermost name: of `a.py::B::c[1-2]` it is `c`, of `outer > inner` it is `inner`. */
function titleOf(test: string): string {
  const last = test.split(/::| > | › |#/).at(-1) ?? "";
  const bare = last
    .replace(/\[.*\]$/s, "")
    .replace(/\(.*\)$/s, "")
    .trim();
  return /^[\w.]+$/.test(bare) ? (bare.split(".").at(-1) ?? bare) : bare;
}
