import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { apply, type FileChange, recoverFiles } from "../src/index.ts";
import { digestOf } from "../src/revision.ts";

type Bench = {
  readonly directory: string;
  readonly journal: string;
  text(file: string): Promise<string>;
  apply(changes: readonly FileChange[]): ReturnType<typeof apply>;
};

async function onTree<T>(
  files: Readonly<Record<string, string>>,
  use: (bench: Bench) => Promise<T>,
): Promise<T> {
  const root = await mkdtemp(join(tmpdir(), "kai-apply-"));
  const [directory, journal] = [join(root, "tree"), join(root, "journal")];
  await mkdir(directory);
  for (const [file, text] of Object.entries(files)) await writeFile(join(directory, file), text);
  const rest = { directory, journal, owner: "me", onAside: () => {} };
  try {
    return await use({
      directory,
      journal,
      text: (file) => readFile(join(directory, file), "utf8"),
      apply: (changes) => apply(changes, rest),
    });
  } finally {
    await rm(root, { recursive: true, force: true });
  }
}

const AB = { "a.txt": "one\n", "b.txt": "two\n" };
const A = { file: "a.txt", before: "one\n", after: "ONE\n" };
const B = { file: "b.txt", before: "two\n", after: "TWO\n" };

test("all files are written, with their modes, and nothing is left beside them", () =>
  onTree(AB, async (bench) => {
    await chmod(join(bench.directory, "a.txt"), 0o751);
    expect(await bench.apply([A, B])).toEqual({ ok: true, value: undefined });
    expect([await bench.text("a.txt"), await bench.text("b.txt")]).toEqual(["ONE\n", "TWO\n"]);
    expect((await stat(join(bench.directory, "a.txt"))).mode & 0o7777).toBe(0o751);
    expect(await readdir(bench.directory)).toEqual(["a.txt", "b.txt"]);
    expect(await readdir(bench.journal)).toEqual([]);
  }));

test("a file that was changed meanwhile stops all of it, and what was written is put back", () =>
  onTree({ ...AB, "b.txt": "somebody's\n" }, async (bench) => {
    expect(await bench.apply([A, B])).toMatchObject({ ok: false, fault: { code: "changed" } });
    expect([await bench.text("a.txt"), await bench.text("b.txt")]).toEqual([
      "one\n",
      "somebody's\n",
    ]);
    expect(await readdir(bench.directory)).toEqual(["a.txt", "b.txt"]);
    expect(await readdir(bench.journal)).toEqual([]);
  }));

/** A journal as a run leaves it that dies in the middle. */
async function left(bench: Bench, owner = "dead"): Promise<void> {
  await mkdir(bench.journal, { recursive: true });
  const files = [A, B].map(({ file, before, after }) => ({
    file,
    aside: join(bench.directory, `.${file}.kai`),
    mode: 0o644,
    beforeDigest: digestOf(before),
    afterDigest: digestOf(after),
    before,
  }));
  const journal = { version: 1, owner, directory: bench.directory, files };
  await writeFile(join(bench.journal, "j.json"), JSON.stringify(journal));
}

test("whatever a run that died had come to, files are those of before, or those of after, or somebody's", () =>
  fc.assert(
    fc.asyncProperty(fc.tuple(state(A), state(B)), fc.boolean(), async ([a, b], hasAside) =>
      onTree({ "a.txt": a, "b.txt": b }, async (bench) => {
        await left(bench);
        if (hasAside) await writeFile(join(bench.directory, ".b.txt.kai"), "TW");
        const restored = await recoverFiles(bench.journal, () => false);
        const isWhole = a === A.after && b === B.after;
        const want = isWhole
          ? [a, b]
          : [a === A.after ? A.before : a, b === B.after ? B.before : b];
        expect([await bench.text("a.txt"), await bench.text("b.txt")]).toEqual(want);
        expect(restored.length).toBe(
          isWhole ? 0 : [a === A.after, b === B.after].filter(Boolean).length,
        );
        expect(await readdir(bench.directory)).toEqual(["a.txt", "b.txt"]);
        expect(await readdir(bench.journal)).toEqual([]);
      }),
    ),
    { numRuns: 24 },
  ));

function state({ before, after }: FileChange): fc.Arbitrary<string> {
  return fc.constantFrom(before, after, "somebody's since\n");
}

test("the journal of a run that lives is left to it", () =>
  onTree({ ...AB, "a.txt": A.after }, async (bench) => {
    await left(bench, "alive");
    expect(await recoverFiles(bench.journal, (owner) => owner === "alive")).toEqual([]);
    expect(await bench.text("a.txt")).toBe(A.after);
    expect(await readdir(bench.journal)).toEqual(["j.json"]);
  }));

test("a journal that was cut short is of something that had not begun", () =>
  onTree(AB, async (bench) => {
    await mkdir(bench.journal);
    await writeFile(join(bench.journal, "j.json"), '{"version":1,"own');
    expect(await recoverFiles(bench.journal, () => false)).toEqual([]);
    expect(await readdir(bench.journal)).toEqual([]);
  }));
