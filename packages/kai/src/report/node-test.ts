import { failureLimit, failureOf, messageOf, outermost } from "./failure.ts";
import { crashOf } from "./plain.ts";
import type { Failure, Report } from "./report.ts";
import { framesOf } from "./trace.ts";
import type { Transcript } from "./transcript.ts";
import { fileOf, type Place } from "./workspace.ts";

/** What parts the names of a test from its suites' in a report of node:test. */
export const nodeSeparator = " > ";

const count = /^ℹ (tests|pass|fail|cancelled) (\d+)$/;
const summary = /^(?:✖ failing tests:|Failed tests:)$/;
const failed = /^(\s*)✖ (.+?)(?: \(\d[\d.]*ms\))?$/;

export function readsNodeTest({ lines }: Transcript): boolean {
  return lines.some((line) => count.test(line) || summary.test(line));
}

/** Reads the reporters `spec` and `dot` of node:test. */
export function readNodeTest(transcript: Transcript, place: Place): Omit<Report, "runner"> {
  const { lines } = transcript;
  const from = lines.findIndex((line) => summary.test(line));
  const paths = pathsOf(from < 0 ? lines : lines.slice(0, from));
  const told = new Set<number>();
  const failures: Failure[] = [];
  for (const block of blocksOf(lines.slice(from + 1), from >= 0)) {
    if (failures.length >= failureLimit) break;
    const at = paths.findIndex((path, index) => !told.has(index) && path.at(-1) === block.name);
    told.add(at);
    const path = paths[at] ?? [block.name];
    failures.push(crashIn(block, lines, place) ?? failureIn(block, path, place));
  }
  return { failures, ...countsOf(lines) };
}

type Block = { readonly name: string; readonly where: string; readonly lines: readonly string[] };

/** The failures told one by one; what only says that a test below it failed is left out. */
function blocksOf(lines: readonly string[], flat: boolean): readonly Block[] {
  const blocks: { name: string; where: string; lines: string[] }[] = [];
  let where = "";
  for (const line of lines) {
    const place = /^test at (.+):\d+:\d+$/.exec(line)?.[1];
    const head = failed.exec(line);
    if (place !== undefined) where = place;
    else if (head !== null && (!flat || head[1] === "")) {
      blocks.push({ name: head[2] ?? "", where, lines: [] });
      where = "";
    } else if (/^\s*[▶✔ℹ﹣] /.test(line)) blocks.push({ name: "", where: "", lines: [] });
    else blocks.at(-1)?.lines.push(line);
  }
  return blocks.filter((block) => {
    const said = block.lines.find((line) => line.trim() !== "") ?? "";
    return said !== "" && block.name !== "" && !/^\s*'?\d+ subtests? failed'?$/.test(said);
  });
}

/** The names of each failing test with those of the suites around it, from the tree of the reporter. */
function pathsOf(lines: readonly string[]): readonly (readonly string[])[] {
  const paths: (readonly string[])[] = [];
  const open: string[] = [];
  for (const line of lines) {
    const suite = /^((?: {2})*)▶ (.+?)(?: \(\d[\d.]*ms\))?$/.exec(line);
    const leaf = failed.exec(line);
    if (suite !== null) {
      open.length = Math.min(open.length, (suite[1] ?? "").length / 2);
      open.push(suite[2] ?? "");
    } else if (leaf !== null) {
      const depth = (leaf[1] ?? "").length / 2;
      const closes = open[depth] === leaf[2];
      open.length = Math.min(open.length, depth);
      if (!closes) paths.push([...open, leaf[2] ?? ""]);
    }
  }
  return paths;
}

function failureIn(block: Block, path: readonly string[], place: Place): Failure {
  const frames = framesOf(block.lines, place);
  return failureOf({
    test: path.join(nodeSeparator),
    file: fileOf(place, block.where) ?? outermost(frames),
    kind: null,
    message: messageOf(block.lines, (line) => /^\s+at .*[:)]\d*|^\s*\{$/.test(line)),
    frames,
  });
}

/** A file that ended before its tests could: what it said is above the line that first names it. */
function crashIn(block: Block, lines: readonly string[], place: Place): Failure | null {
  const file = fileOf(place, block.name);
  if (file === null) return null;
  const at = lines.findIndex((line) => failed.exec(line)?.[2] === block.name);
  const before = lines.slice(0, Math.max(at, 0));
  const from = before.findLastIndex((line) => /^[✖✔▶] /.test(line));
  return crashOf(file, before.slice(from + 1), place);
}

function countsOf(lines: readonly string[]): Pick<Report, "passedCount" | "failedCount"> {
  const counts = new Map<string, number>();
  for (const line of lines) {
    const match = count.exec(line);
    if (match !== null) counts.set(match[1] ?? "", Number(match[2]));
  }
  if (counts.size === 0) return { passedCount: null, failedCount: null };
  const failedCount = (counts.get("fail") ?? 0) + (counts.get("cancelled") ?? 0);
  return { passedCount: counts.get("pass") ?? null, failedCount };
}
