import { failureLimit, failureOf, messageOf, outermost } from "./failure.ts";
import { crashOf } from "./plain.ts";
import type { Failure, Report } from "./report.ts";
import { framesOf } from "./trace.ts";
import type { Transcript } from "./transcript.ts";
import { fileOf, type Place } from "./workspace.ts";

const result = /^(\s*)(not )?ok\b(?: +\d+)?(?: +-)?(?: +(\S.*))?$/;
const note = /^(\s*)# Subtest: (.+)$/;

export function readsTap({ stdout }: Transcript): boolean {
  return (
    stdout.some((line) => /^TAP version \d+$/.test(line)) ||
    (stdout.some((line) => /^1\.\.\d+/.test(line)) &&
      stdout.some((line) => /^(?:not )?ok \d/.test(line)))
  );
}

/** Node writes its own fields under each point; Node 20 also does so where nobody asked for TAP. */
export function readsNodeTap(transcript: Transcript): boolean {
  return (
    readsTap(transcript) &&
    transcript.stdout.some((line) => /^\s+(?:duration_ms|failureType): /.test(line))
  );
}

type Point = {
  readonly path: readonly string[];
  readonly depth: number;
  readonly passed: boolean | null;
  readonly parent: boolean;
  readonly lines: readonly string[];
  /** The comments before it, which is where node:test tells what a file wrote. */
  readonly notes: readonly string[];
};

/** Reads TAP 12 to 14, with the nesting of node:test and of vitest. */
export function readTap({ stdout }: Transcript, place: Place): Omit<Report, "runner"> {
  const failures: Failure[] = [];
  let [passedCount, failedCount] = [0, 0];
  for (const point of pointsOf(stdout)) {
    if (point.parent) continue;
    if (point.passed === true) passedCount += 1;
    if (point.passed !== false) continue;
    failedCount += 1;
    if (failures.length < failureLimit) failures.push(failureIn(point, place));
  }
  return { failures, passedCount, failedCount };
}

function pointsOf(lines: readonly string[]): readonly Point[] {
  const points: {
    -readonly [K in keyof Point]: Point[K] extends readonly string[] ? string[] : Point[K];
  }[] = [];
  /** The suites that are open, by the indentation of their own points. */
  let open: { readonly depth: number; readonly name: string; readonly from: number }[] = [];
  let fenced: number | null = null;
  let notes: string[] = [];
  for (const line of lines) {
    const depth = line.search(/\S/);
    if (fenced !== null) {
      points.at(-1)?.lines.push(line);
      if (depth === fenced && line.trim() === "...") fenced = null;
      continue;
    }
    const begun = note.exec(line);
    const match = result.exec(line);
    if (begun !== null) {
      open = open.filter((it) => it.depth < depth);
      open.push({ depth, name: begun[2] ?? "", from: points.length });
    } else if (match !== null) {
      const { name, passed, holds } = described(match[3] ?? "", match[2] === undefined);
      const own = open.find((it) => it.depth === depth);
      const children = own !== undefined && points.slice(own.from).some((it) => it.depth > depth);
      open = open.filter((it) => it.depth < depth);
      const path = [...open.map((it) => it.name), name];
      points.push({ path, depth, passed, parent: children || holds, lines: [], notes });
      notes = [];
      if (holds) open.push({ depth, name, from: points.length });
    } else if (line.trim() === "}") open = open.filter((it) => it.depth < depth);
    else if (/^\s*(?:1\.\.\d+|TAP version \d+)$/.test(line)) continue;
    else if (line.startsWith("# ")) notes.push(line.slice(2));
    else {
      if (line.trim() === "---") fenced = depth;
      points.at(-1)?.lines.push(line);
    }
  }
  return points;
}

function described(
  text: string,
  ok: boolean,
): { readonly name: string; readonly passed: boolean | null; readonly holds: boolean } {
  const holds = text.endsWith("{");
  const directive = /\s# ?(skip|todo)\b.*$/i.exec(text);
  const name = text
    .replace(/\s*\{$/, "")
    .replace(/\s# ?(?:skip|todo)\b.*$/i, "")
    .replace(/\s# time=\S+$/, "")
    .replaceAll(/\\([\\#])/g, "$1")
    .trim();
  return { name, passed: directive === null ? ok : null, holds };
}

function failureIn(point: Point, place: Place): Failure {
  const { lines } = point;
  const fields = fieldsOf(lines);
  const frames = framesOf(
    lines.filter((line) => !/^\s*location:/.test(line)),
    place,
  );
  const first = fileOf(place, point.path[0] ?? "");
  const path = first === null || point.path.length === 1 ? point.path : point.path.slice(1);
  if (first !== null && point.path.length === 1 && frames.length === 0 && point.notes.length > 0) {
    return crashOf(first, point.notes, place);
  }
  const where = fields.get("location") ?? "";
  const name = fields.get("name") ?? "";
  const error = fields.get("error") ?? fields.get("message") ?? "";
  const compared = ["expected", "actual"]
    .filter((it) => fields.has(it))
    .map((it) => `${it}: ${fields.get(it)}`);
  const said =
    error === ""
      ? compared.join("\n") || messageOf(lines, (line) => /^\s+at |^\s*---$/.test(line))
      : name === "" || error.startsWith(name)
        ? error
        : `${name}: ${error}`;
  const assertion =
    fields.has("operator") ||
    /^Assert/.test(name) ||
    lines.some((line) => /^\s*AssertionError/.test(line));
  const load = first !== null && point.path.length === 1;
  return failureOf({
    test: path.join(" > "),
    file: first ?? fileOf(place, where.replace(/:\d+(?::\d+)?$/, "")) ?? outermost(frames),
    kind: load ? "load" : assertion ? "assertion" : null,
    message: said,
    frames,
  });
}

/** The fields of the YAML below a point, one level or two: a value on its line, or a block under it. */
function fieldsOf(lines: readonly string[]): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  let block: { readonly key: string; readonly depth: number; readonly lines: string[] } | null =
    null;
  for (const line of lines) {
    const depth = line.search(/\S/);
    if (block !== null && (depth < 0 || depth > block.depth)) {
      block.lines.push(line);
      continue;
    }
    if (block !== null) fields.set(block.key, messageOf(block.lines, () => false).trimEnd());
    block = null;
    const match = /^\s*(\w+):(?: (.*))?$/.exec(line);
    const [key = "", value = ""] = match?.slice(1) ?? [];
    if (/^[|>][-+]?$/.test(value)) block = { key, depth, lines: [] };
    else if (match !== null && value !== "" && !fields.has(key)) fields.set(key, unquoted(value));
  }
  if (block !== null) fields.set(block.key, messageOf(block.lines, () => false).trimEnd());
  return fields;
}

function unquoted(value: string): string {
  const inner = /^(["'])(.*)\1$/.exec(value);
  return inner === null ? value : (inner[2] ?? "").replaceAll(/\\(["'\\])/g, "$1");
}
