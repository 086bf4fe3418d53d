import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NO_USAGE } from "@dev/protocol";
import { expect, test } from "vitest";
import { openSpend, type Spend, type SpendLine } from "../src/spend.ts";

type Place = AsyncDisposable & { readonly path: string };

async function place(): Promise<Place> {
  const directory = await mkdtemp(join(tmpdir(), "kai-spend-"));
  return {
    path: join(directory, "kai", "spend.jsonl"),
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
}

async function opened(path: string, run: string): Promise<Spend> {
  const spend = await openSpend(path, run);
  if (!spend.ok) throw new Error(spend.fault.message);
  return spend.value;
}

function line(id: string, costMicroUsd: number): SpendLine {
  return {
    id,
    atMs: 1,
    model: "main/model",
    effort: "low",
    stage: "low",
    status: "answered",
    usage: NO_USAGE,
    costMicroUsd,
    billed: "usage",
    firstMs: null,
    ms: 2,
    error: "",
  };
}

async function ids(path: string): Promise<readonly string[]> {
  const lines = (await readFile(path, "utf8")).trimEnd().split("\n");
  return lines.map((each) => JSON.parse(each).id);
}

test("lines are there when they are told to be, in the order in which they were given", async () => {
  await using at = await place();
  const spend = await opened(at.path, "r");
  const written = ["g1", "g2", "g3"].map((id, index) => spend.append(line(id, index + 1)));
  expect(spend.spentMicroUsd).toBe(6);
  expect((await Promise.all(written)).every(({ ok }) => ok)).toBe(true);
  expect(await ids(at.path)).toEqual(["g1", "g2", "g3"]);
  await spend.close();
});

test("what a run spent before its process died counts; what others spent does not", async () => {
  await using at = await place();
  for (const [run, cost] of [
    ["r", 5],
    ["other", 100],
    ["r", 7],
  ] as const) {
    const spend = await opened(at.path, run);
    await spend.append(line("g1", cost));
    await spend.close();
  }
  const spend = await opened(at.path, "r");
  expect([spend.spentMicroUsd, spend.callCount]).toEqual([12, 2]);
  await spend.close();
});

test("half a line of a process that died spoils no other", async () => {
  await using at = await place();
  const first = await opened(at.path, "r");
  await first.append(line("g1", 3));
  await first.close();
  await appendFile(at.path, '{"version":1,"run":"r","id":"g2","costMi');
  const second = await opened(at.path, "r");
  expect(second.spentMicroUsd).toBe(3);
  await second.append(line("g3", 4));
  await second.close();
  const lines = (await readFile(at.path, "utf8")).trimEnd().split("\n");
  expect(lines).toHaveLength(3);
  expect(JSON.parse(lines[2] ?? "").id).toBe("g3");
});

test("a file that cannot be written is a fault, and what was spent counts all the same", async () => {
  await using at = await place();
  const spend = await opened(at.path, "r");
  await spend.close();
  const written = await spend.append(line("g1", 9)).catch(() => null);
  expect(written).toMatchObject({ ok: false, fault: { code: "io", subject: at.path } });
  expect(spend.spentMicroUsd).toBe(9);
});

test("a directory that cannot be made is a fault", async () => {
  await using at = await place();
  await writeFile(join(at.path, "..", "..", "kai"), "a file");
  expect(await openSpend(at.path, "r")).toMatchObject({ ok: false, fault: { code: "io" } });
});
