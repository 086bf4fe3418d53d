import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Change, Edit, Result } from "@dev/protocol";
import { createTwoFilesPatch } from "diff";
import fc from "fast-check";
import { expect, test } from "vitest";
import { applyEdits } from "../src/agent/edit.ts";
import { commit, prepare } from "../src/agent/files.ts";
import { applyHunks, parseDiff } from "../src/agent/hunk.ts";
import { countChanges, latin1 } from "../src/agent/lines.ts";
import { Tree } from "../src/agent/tree.ts";
import { scratch } from "./cell.ts";

/** Edits a file with these bytes for real, and gives the bytes that it has then, or the fault's code. */
async function patch(before: string | Uint8Array, change: Change): Promise<string> {
  const directory = await scratch();
  await writeFile(join(directory, "file"), before);
  const tree = new Tree(directory);
  const prepared = await prepare(tree, { kind: "patch", path: "file", change, expect: "any" });
  if (!prepared.ok) {
    expect((await readFile(join(directory, "file"))).equals(Buffer.from(before))).toBe(true);
    return prepared.fault.code;
  }
  expect(await commit(tree, prepared.value, "test")).toEqual({ ok: true, value: undefined });
  return (await readFile(join(directory, "file"))).toString("latin1");
}

const edit = (before: string | Uint8Array, ...edits: readonly Edit[]) =>
  patch(before, { kind: "edits", edits });
const diff = (before: string | Uint8Array, ...lines: readonly string[]) =>
  patch(before, { kind: "diff", diff: lines.map((line) => `${line}\n`).join("") });
const message = (result: Result<string>) => (result.ok ? "" : result.fault.message);

test("an edit replaces the one place where its old text stands", async () => {
  expect(await edit("one\ntwo\nthree\n", { old: "two", new: "2" })).toBe("one\n2\nthree\n");
});

test("edits are found in the original, in any order, and all of them apply", async () => {
  const edits = [
    { old: "c", new: "a" },
    { old: "a", new: "b" },
  ];
  expect(await edit("a\nb\nc\n", ...edits)).toBe("b\nb\na\n");
});

test("one edit that does not match leaves the file as it was", async () => {
  const edits = [
    { old: "one", new: "1" },
    { old: "absent", new: "2" },
  ];
  expect(await edit("one\n", ...edits)).toBe("no_match");
});

test("old text that stands twice is refused with its lines, overlapping places too", () => {
  const found = applyEdits("x\ny\nx\n", [{ old: "x", new: "z" }], "f");
  expect(found.ok ? "" : found.fault.code).toBe("many_matches");
  expect(message(found)).toContain("2 times, at lines 1, 3");
  expect(message(applyEdits("aaa", [{ old: "aa", new: "b" }], "f"))).toContain("2 times");
});

test("edits that overlap are refused", async () => {
  const edits = [
    { old: "abc", new: "1" },
    { old: "cde", new: "2" },
  ];
  expect(await edit("abcde", ...edits)).toBe("bad_call");
});

test("empty old text and no edits at all are bad calls", async () => {
  expect(await edit("a", { old: "", new: "b" })).toBe("bad_call");
  expect(await edit("a")).toBe("bad_call");
});

test("an edit that only white space keeps from matching is told where it nearly stands", () => {
  const tabs = message(applyEdits("a\n\tif (x) {\nb\n", [{ old: "    if (x) {", new: "" }], "f"));
  expect(tabs).toContain("but for white space it begins at line 2");
  const nbsp = message(applyEdits(latin1("a\u00a0= 1\n"), [{ old: "a = 1", new: "" }], "f"));
  expect(nbsp).toContain("but for white space it begins at line 1");
});

test("a file of CR LF lines is matched and written in CR LF when the model writes LF", async () => {
  const edits = { old: "one\ntwo", new: "1\n2\n3" };
  expect(await edit("zero\r\none\r\ntwo\r\n", edits)).toBe("zero\r\n1\r\n2\r\n3\r\n");
  expect(await edit("a\r\nb\r\n", { old: "b", new: "b\nc" })).toBe("a\r\nb\r\nc\r\n");
  expect(await edit("a\r\nb\r\n", { old: "\nb", new: "\nc" })).toBe("a\r\nc\r\n");
});

test("CR LF written by the model stays CR LF, and does not match an LF file", async () => {
  expect(await edit("a\r\nb\r\n", { old: "a\r\nb", new: "x\r\ny" })).toBe("x\r\ny\r\n");
  expect(await edit("a\nb\n", { old: "a\r\nb", new: "x" })).toBe("no_match");
});

test("in a file of both endings each place keeps its own", async () => {
  const mixed = "a\nb\nc\r\nd\r\ne\n";
  expect(await edit(mixed, { old: "c\nd", new: "x\ny" })).toBe("a\nb\nx\r\ny\r\ne\n");
  expect(await edit(mixed, { old: "a\nb", new: "x\ny" })).toBe("x\ny\nc\r\nd\r\ne\n");
});

test("a byte order mark, tabs, no-break spaces and a missing last newline stay as they are", async () => {
  const before = "\ufeff\tone\u00a0two\nx\n\tlast";
  const after = latin1("\ufeff\tone\u00a0two\ny\n\tlast");
  expect(await edit(before, { old: "x", new: "y" })).toBe(after);
  expect(await diff(before, "@@ -2,1 +2,1 @@", "-x", "+y")).toBe(after);
});

test("bytes that are not UTF-8 stay as they are", async () => {
  const before = Buffer.from("caf\xe9 \xff\xfe\nx = 1\n\x80\x81", "latin1");
  expect(await edit(before, { old: "x = 1", new: "x = é" })).toBe(
    `caf\xe9 \xff\xfe\nx = \xc3\xa9\n\x80\x81`,
  );
  expect(await diff(before, "@@ -2 +2 @@", "-x = 1", "+x = 2")).toBe(
    "caf\xe9 \xff\xfe\nx = 2\n\x80\x81",
  );
});

test("a diff applies at the line that it states", async () => {
  const lines = ["--- a/file", "+++ b/file", "@@ -1,3 +1,3 @@", " a", "-b", "+B", " a"];
  expect(await diff("a\nb\na\na\nb\na\n", ...lines)).toBe("a\nB\na\na\nb\na\n");
});

test("a diff applies elsewhere when there is exactly one such place, and never by fuzz", async () => {
  const hunk = ["@@ -1,3 +1,3 @@", " a", "-b", "+B", " c"];
  expect(await diff("x\ny\na\nb\nc\n", ...hunk)).toBe("x\ny\na\nB\nc\n");
  expect(await diff("x\na\nb\nc\na\nb\nc\n", ...hunk)).toBe("many_matches");
  expect(await diff("x\na\nb \nc\n", ...hunk)).toBe("no_match");
  expect(await diff("x\nb\nc\n", ...hunk)).toBe("no_match");
});

test("one hunk that does not match leaves the file as it was", async () => {
  const hunks = ["@@ -1 +1 @@", "-a", "+A", "@@ -3 +3 @@", "-x", "+X"];
  expect(await diff("a\nb\nc\n", ...hunks)).toBe("no_match");
});

test("hunks stay in order: a later one does not move in front of an earlier", async () => {
  const hunks = ["@@ -3 +3 @@", "-c", "+C", "@@ -9 +9 @@", "-a", "+A"];
  expect(await diff("a\nb\nc\n", ...hunks)).toBe("no_match");
});

test("a diff whose counts are not those of its lines was cut, and is refused", async () => {
  expect(await diff("a\nb\nc\n", "@@ -1,3 +1,3 @@", " a", "-b", "+B")).toBe("bad_call");
  expect(await diff("a\nb\n", "@@ -1 +1 @@", "-a", "+A", "+more")).toBe("bad_call");
  expect(await diff("a\n", "no hunk")).toBe("bad_call");
  expect(await diff("a\n", "@@ @@", "-a", "+A")).toBe("bad_call");
});

test("a diff of a second file, or one that deletes the file, is refused", async () => {
  const second = [
    "@@ -1 +1 @@",
    "-a",
    "+A",
    "--- a/other",
    "+++ b/other",
    "@@ -1 +1 @@",
    "-x",
    "+y",
  ];
  expect(await diff("a\nb\n", ...second)).toBe("bad_call");
  const away = ["--- a/file", "+++ /dev/null", "@@ -1 +0,0 @@", "-a"];
  expect(await diff("a\n", ...away)).toBe("unsupported");
});

test("an LF diff applies to a CR LF file, and a CR LF diff too", async () => {
  const lf = ["@@ -1,2 +1,3 @@", " a", "-b", "+B", "+C"];
  expect(await diff("a\r\nb\r\n", ...lf)).toBe("a\r\nB\r\nC\r\n");
  expect(await diff("a\r\nb\r\n", ...lf.map((line) => `${line}\r`))).toBe("a\r\nB\r\nC\r\n");
  // As git writes it: the lines have their CR, the headers do not.
  const git = ["@@ -1,2 +1,2 @@", " a\r", "-b\r", "+B\r"];
  expect(await diff("a\r\nb\r\n", ...git)).toBe("a\r\nB\r\n");
});

test("a diff says with its mark whether the last line has a newline", async () => {
  const mark = "\\ No newline at end of file";
  expect(await diff("a\nb", "@@ -2 +2 @@", "-b", mark, "+c", mark)).toBe("a\nc");
  expect(await diff("a\nb", "@@ -2 +2 @@", "-b", mark, "+c")).toBe("a\nc\n");
  expect(await diff("a\nb\n", "@@ -2 +2 @@", "-b", "+c", mark)).toBe("a\nc");
  expect(await diff("a\nb\n", "@@ -2 +2 @@", "-b", mark, "+c")).toBe("no_match");
  expect(await diff("a\nb", "@@ -2 +2 @@", "-b", "+c")).toBe("no_match");
});

test("no two lines become one where a newline is missing", async () => {
  const mark = "\\ No newline at end of file";
  expect(await diff("a", "@@ -1 +1,2 @@", " a", "+b")).toBe("no_match");
  expect(await diff("a\nb\n", "@@ -1 +1,2 @@", " a", "+x", mark)).toBe("no_match");
});

test("a diff with nothing on its old side makes a file", async () => {
  const tree = new Tree(await scratch());
  const text = "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+a\n+b\n";
  const change = { kind: "diff", diff: text } as const;
  const made = await prepare(tree, { kind: "patch", path: "new", change, expect: "absent" });
  expect(made.ok && made.value.bytes.toString()).toBe("a\nb\n");
});

test("edits of a file that is not there are refused", async () => {
  const tree = new Tree(await scratch());
  const change = { kind: "edits", edits: [{ old: "a", new: "b" }] } as const;
  const made = await prepare(tree, { kind: "patch", path: "new", change, expect: "any" });
  expect(made.ok ? "" : made.fault.code).toBe("not_found");
});

test("every diff that another program makes of two texts turns the one into the other", () => {
  const line = fc.constantFrom("a", "b", "  c", "\td", "", "-", "+", "@@", "é", "\\ x");
  const text = fc
    .tuple(fc.array(line, { maxLength: 12 }), fc.boolean())
    .map(([lines, isOpen]) => lines.join("\n") + (isOpen || lines.length === 0 ? "" : "\n"));
  fc.assert(
    fc.property(text, text, fc.integer({ min: 0, max: 4 }), (before, after, context) => {
      fc.pre(before !== after);
      const made = createTwoFilesPatch("a/f", "b/f", before, after, "", "", { context });
      const hunks = parseDiff(made, "f");
      const applied = hunks.ok ? applyHunks(latin1(before), hunks.value, "f") : hunks;
      expect(applied).toEqual({ ok: true, value: latin1(after) });
    }),
    { numRuns: 2_000 },
  );
});

test("an edit changes exactly its place, whatever the other bytes are", () => {
  const bytes = fc.uint8Array({ maxLength: 60 }).map((array) => Buffer.from(array));
  fc.assert(
    fc.property(bytes, bytes, (head, tail) => {
      const before = Buffer.concat([head, Buffer.from("<old>"), tail]).toString("latin1");
      fc.pre(before.split("<old>").length === 2);
      const after = applyEdits(before, [{ old: "<old>", new: "<new>" }], "f");
      expect(after).toEqual({ ok: true, value: before.replace("<old>", () => "<new>") });
    }),
  );
});

test("added and removed lines are counted as a diff shows them", () => {
  expect(countChanges("", "a\nb\n")).toEqual({ added: 2, removed: 0 });
  expect(countChanges("a\nb\nc\n", "a\nX\nc\n")).toEqual({ added: 1, removed: 1 });
  expect(countChanges("a\nb\nc\nd\n", "b\nc\nd\ne\n")).toEqual({ added: 1, removed: 1 });
  expect(countChanges("a", "a\n")).toEqual({ added: 1, removed: 1 });
});

test("counting two large texts that have nothing in common takes no time to speak of", () => {
  const numbers = Array.from({ length: 50_000 }, (_, index) => index);
  const before = numbers.map((index) => `a${index}\n`).join("");
  const after = numbers.map((index) => `b${index}\n`).join("");
  expect(countChanges(before, after)).toEqual({ added: 50_000, removed: 50_000 });
});
