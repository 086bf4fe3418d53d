import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { read } from "./support/dev.ts";
import { type Slipped, slipped } from "./support/slip.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const GUIDE = read(join(ROOT, "docs/guides/fix.md"));
const INTERNALS = read(join(ROOT, "docs/internals/fix.md"));
const LIMIT_MS = 180_000;

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "dev-guide-"));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** The texts of a page's blocks in one language. */
function blocks(page: string, language: string): readonly string[] {
  const found = page.matchAll(/^```(\w+)\n(.*?)^```$/gms);
  return [...found].flatMap(([, its, text = ""]) => (its === language ? [text] : []));
}

function commands(page: string): readonly string[] {
  return blocks(page, "sh").flatMap((text) => text.split("\n").filter((line) => line !== ""));
}

type Ended = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

function shell(command: string, { project, home }: Slipped): Ended {
  const bin = join(ROOT, "node_modules/.bin");
  const { status, stdout, stderr } = spawnSync("sh", ["-c", command], {
    cwd: project,
    env: { PATH: `${bin}${delimiter}${process.env.PATH}`, HOME: home, DEV_HOME: home },
    encoding: "utf8",
  });
  return { code: status, stdout, stderr };
}

test("every command of the guide ends as the guide says", { timeout: LIMIT_MS }, () => {
  expect(commands(GUIDE).length).toBeGreaterThan(3);
  for (const command of commands(GUIDE)) {
    const slip = withTotal("assert.equal(total(2, 2), 4)");
    const { code, stderr } = shell(command, slip);
    const isAmbiguous = command.includes("total");
    expect(code, `${command}\n${stderr}`).toBe(isAmbiguous ? 5 : 0);
    const slipsLeft = read(join(slip.project, "src/split.js")).includes("<= rest");
    expect(slipsLeft, command).toBe(isAmbiguous);
  }
});

test("what the guide shows of a run is what a run prints, but for times and counts", {
  timeout: LIMIT_MS,
}, () => {
  const [shown = "", ambiguous = ""] = blocks(GUIDE, "text");
  const slip = slipped(directory, "left");
  const { stdout, stderr } = shell("dev fix -- node --test test/settle.test.js", slip);
  const printed = plain(`${stdout}${stderr}`);
  for (const line of plain(shown)) expect(printed).toContain(line);
  const parted = shell(ON_TOTAL, withTotal("assert.equal(total(2, 2), 4)"));
  for (const line of plain(ambiguous)) expect(plain(parted.stderr)).toContain(line);
});

/** The lines of a text without what is another in each run. */
function plain(text: string): readonly string[] {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  return lines.map((line) =>
    /^(\d|✓|✗)/.test(line) ? line.replace(/[\d.,]+ (ms|s|min|candidates?)\b|fix_\w+/g, "N") : line,
  );
}

test("the assertion that the guide adds settles what was ambiguous", { timeout: LIMIT_MS }, () => {
  const slip = withTotal("assert.equal(total(2, 2), 4)", "assert.equal(total(2, 3), 5)");
  const { code, stderr } = shell(ON_TOTAL, slip);
  expect(code, stderr).toBe(0);
  expect(read(join(slip.project, "src/total.js"))).toContain("a + b");
});

const ON_TOTAL = "dev fix -- node --test test/total.test.js";

/** The sample project with the guide's example of a test that says too little, or enough. */
function withTotal(...assertions: readonly string[]): Slipped {
  for (const each of assertions) expect(GUIDE).toContain(`\`${each}\``);
  const [source = ""] = blocks(GUIDE, "js");
  const slip = slipped(directory, "left");
  writeFileSync(join(slip.project, "src/total.js"), source);
  const lines = [
    'import assert from "node:assert/strict";',
    'import { test } from "node:test";',
    'import { total } from "../src/total.js";',
    `test("total", () => { ${assertions.join("; ")}; });`,
  ];
  writeFileSync(join(slip.project, "test/total.test.js"), lines.join("\n"));
  return slip;
}

test("the guide has every flag and every exit code of `dev help fix`, and no other", () => {
  const { stdout: help } = shell("dev help fix", slipped(directory));
  const flags = [...help.matchAll(/^ {2}(--?[\w-]+( [A-Z]+)?) {2}/gm)].map(([, flag]) => flag);
  const rows = [...GUIDE.matchAll(/^\| `(-[^`]*)`/gm)].map(([, flag]) => flag);
  expect(rows.toSorted()).toEqual(flags.toSorted());
  const codes = [...(/^Exit codes:([\s\S]*)/m.exec(help)?.[1]?.matchAll(/\d+/g) ?? [])];
  const told = [...GUIDE.matchAll(/^\| (\d+) /gm)].map(([, code]) => code);
  expect(told).toEqual([...codes.map(([code]) => code), "130"]);
});

test("the settings that the guide shows are accepted", () => {
  const [settings = ""] = blocks(GUIDE, "toml");
  expect(settings).not.toBe("");
  const slip = slipped(directory);
  writeFileSync(join(slip.home, "config.toml"), settings);
  const { stdout } = shell("dev doctor --json", slip);
  const checks = stdout.split("\n").filter((line) => line.startsWith("{"));
  expect(checks.map((line) => JSON.parse(line))).toContainEqual(
    expect.objectContaining({ name: "settings", state: "ok" }),
  );
});

test("each ledger line that is explained is of a kind and shape that a run writes", {
  timeout: LIMIT_MS,
}, () => {
  const slip = slipped(directory, "left");
  const [command = ""] = commands(INTERNALS);
  expect(shell(command, slip)).toMatchObject({ code: 0 });
  const real = parsed(read(join(slip.home, "kai/ledger.jsonl")));
  const explained = blocks(INTERNALS, "jsonl").flatMap(parsed);
  expect(explained.length).toBeGreaterThan(10);
  for (const line of explained) {
    // How many candidates come to their deadline is the machine's to say.
    if (line.status === "timed_out") continue;
    const alike = real.filter(({ kind, status }) => kind === line.kind && status === line.status);
    const isThere = alike.some((each) => Object.keys(line).every((key) => key in each));
    expect(isThere, JSON.stringify(line)).toBe(true);
  }
  expect(real.at(-1)).toMatchObject({ kind: "ended", outcome: "verified" });
});

function parsed(text: string): readonly Readonly<Record<string, unknown>>[] {
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line));
}
