import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { expect, test } from "vitest";
import { edited } from "../../src/candidate.ts";
import { candidates } from "../../src/operator/candidates.ts";
import type { Suspect } from "../../src/operator/region.ts";
import type { Source } from "../../src/syntax/source.ts";
import { openSyntax } from "../../src/syntax/syntax.ts";

/** A folder of cases: each with `tree/`, faulty, and `fixed/`, the right version of what differs. */
const folder = process.env.KAI_CASES;
const TRIED_MAX = Number(process.env.KAI_REACH_MAX ?? 4_000);

type Reached = { readonly case: string; readonly rank: number | null; readonly operator: string };

test("the fix of a case is among the candidates", { timeout: 1_200_000 }, async (context) => {
  context.skip(folder === undefined, "KAI_CASES names no folder of cases");
  if (folder === undefined) return;
  const syntax = await openSyntax();
  const reached: Reached[] = [];
  for (const name of readdirSync(folder).toSorted()) {
    if (!existsSync(join(folder, name, "fixed"))) continue;
    if (process.env.KAI_ONLY !== undefined && !name.startsWith(process.env.KAI_ONLY)) continue;
    for (const file of files(join(folder, name, "fixed"))) {
      const text = readFileSync(join(folder, name, "tree", file), "utf8");
      const fixed = readFileSync(join(folder, name, "fixed", file), "utf8");
      reached.push(find(name, await syntax.read(file, text), fixed));
    }
  }
  syntax.close();
  console.log(table(reached));
  expect(reached.some((each) => each.rank !== null)).toBe(true);
});

function find(name: string, source: Source, fixed: string): Reached {
  const wanted = key(source.file, fixed);
  let rank = 0;
  for (const candidate of candidates([source], [suspect(source, fixed)])) {
    rank += 1;
    const made = edited(source.text, source.file, candidate.edits);
    if (wanted === key(source.file, made)) {
      return { case: name, rank, operator: candidate.operator };
    }
    if (rank >= TRIED_MAX) break;
  }
  return { case: name, rank: null, operator: `none of ${rank}` };
}

/** The right function, all of its lines alike. */
function suspect(source: Source, fixed: string): Suspect {
  const own = lines(source.file, source.text);
  const other = lines(source.file, fixed);
  let at = 0;
  while (at < own.length && own[at]?.said === other[at]?.said) at += 1;
  const line = own[Math.min(at, own.length - 1)]?.line ?? 1;
  const holds = source.functions.filter((site) => site.firstLine <= line && line <= site.lastLine);
  const site = holds[0] ?? source.functions[0];
  const firstLine = site?.firstLine ?? 1;
  const lastLine = site?.lastLine ?? source.line(source.text.length);
  return { file: source.file, firstLine, lastLine, weight: 1 };
}

function key(file: string, text: string): string {
  return lines(file, text)
    .map((line) => line.said)
    .join(file.endsWith(".py") ? "\n" : "");
}

function lines(file: string, text: string): readonly { said: string; line: number }[] {
  const python = file.endsWith(".py");
  const blank = (match: string): string => match.replace(/[^\n]/g, "");
  const bare = python
    ? text.replace(/"""[\s\S]*?"""/g, blank).replace(/#.*/g, "")
    : text.replace(/\/\*[\s\S]*?\*\//g, blank).replace(/\/\/.*/g, "");
  return bare
    .split("\n")
    .map((line, at) => {
      const indent = python ? (/^ */.exec(line)?.[0] ?? "") : "";
      const said = line.replace(/\s+/g, "").replace(/;$/, "").replaceAll('"', "'");
      return { said: indent + said, line: at + 1 };
    })
    .filter((line) => line.said.trim() !== "");
}

function files(top: string, at = top): readonly string[] {
  return readdirSync(at).flatMap((name) => {
    const path = join(at, name);
    return statSync(path).isDirectory() ? files(top, path) : [relative(top, path)];
  });
}

function table(reached: readonly Reached[]): string {
  const kinds = new Set(reached.map((each) => kindOf(each.case)));
  const rows: string[] = [];
  for (const kind of kinds) {
    const own = reached.filter((each) => kindOf(each.case) === kind);
    rows.push(line(kind, own));
    rows.push(
      ...own.map(
        (each) =>
          `  ${each.case.padEnd(36)} ${String(each.rank ?? "-").padStart(6)} ${each.operator}`,
      ),
    );
  }
  const found = reached.filter((each) => each.rank !== null);
  const used = [...new Set(found.map((each) => each.operator))].toSorted();
  const by = used.map((name) =>
    line(
      name,
      found.filter((each) => each.operator === name),
    ),
  );
  return [...rows, ...by, line("all", reached)].join("\n");
}

function kindOf(name: string): string {
  return name.replace(/-[^-]*$/, "");
}

function line(name: string, own: readonly Reached[]): string {
  const ranks = own
    .flatMap((each) => (each.rank === null ? [] : [each.rank]))
    .toSorted((a, b) => a - b);
  const at = (share: number): number => ranks[Math.floor(share * (ranks.length - 1))] ?? 0;
  const within = [30, 100, 300, 1_000].map((most) => ranks.filter((rank) => rank <= most).length);
  const share = `${ranks.length}/${own.length}`.padStart(7);
  return `${name.padEnd(24)}${share} median ${at(0.5)} p90 ${at(0.9)} within 30/100/300/1000: ${within.join("/")}`;
}
