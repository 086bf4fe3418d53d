import type { Message } from "@dev/protocol";
import type { Failure } from "../report/report.ts";
import { EDITS_SCHEMA } from "./answer.ts";
import type { Effort, Prompt } from "./asker.ts";
import { around, linesOf, listing, merged, type Range } from "./listing.ts";
import type { Refusal } from "./placement.ts";
import type { RankedPlace, Subject, Tried } from "./subject.ts";

export const PROMPT_LIMITS = {
  /** Of the source, characters that are shown for each effort. */
  sourceChars: { low: 36_000, full: 90_000 },
  testChars: 16_000,
  /** A file of no more lines than this is shown whole where one of its functions is. */
  wholeLines: 150,
  /**
   * Around a function, a line of a test that failed, and a place in an answer that is sent back.
   */
  placeLines: 3,
  testLines: 25,
  /** Around the likeliest line of a function that there is no room for. */
  windowLines: 40,
  repairLines: 12,
  /** Of a file that a model asked to see. */
  extraChars: 30_000,
  placeCount: 40,
  failureCount: 6,
  messageChars: 4_000,
  triedCount: 6,
  triedChars: 2_000,
} as const;

const PRELUDE = `You mend a fault in a program: a test command fails, and your edit has to make it pass.
Answer with one JSON object, with at least one edit, and with nothing else.
- "file" is a path as it is shown below. "line" is the number of the line on which "old" begins.
- "old" is copied from the file to the letter, with its indentation and without the line numbers; it may span lines.
- "new" takes its place. Edits do not overlap.
Mend the cause with the smallest change that does, for all inputs and not for those of the test alone. Tests are not changed.
Only if you cannot tell without a file that is not shown, answer {"edits":[],"need":"path/of/the/file"}.`;

/** What is asked at a subject; `extra` are files that an earlier answer asked to see. */
export async function promptOf(
  subject: Subject,
  effort: Effort,
  extra: readonly string[],
): Promise<Prompt> {
  const parts = [
    `The command: ${subject.command.argv.join(" ")}`,
    failureText(subject),
    section("The tests:", await testTexts(subject)),
    section("The code, the likeliest places of the fault:", await sourceTexts(subject, effort)),
    section("What you asked to see:", await extraTexts(subject, extra)),
    section("Tried already, to no avail:", triedTexts(subject.tried)),
  ];
  const text = parts.filter((part) => part !== "").join("\n\n");
  return { prelude: PRELUDE, messages: [user(text)], schema: EDITS_SCHEMA };
}

/**
 * The same conversation, with what was answered, why it cannot be used, and the file's own lines
 * there.
 */
export async function repairOf(
  prompt: Prompt,
  reply: Message,
  refusal: Refusal,
  subject: Subject,
): Promise<Prompt> {
  const { why, place } = refusal;
  const text = place === null ? null : await subject.text(place.file);
  const own =
    place === null || text === null
      ? ""
      : `\n\nThe file's own lines there:\n${listing(place.file, text, [windowOf(text, place.line)])}`;
  const said = `That answer cannot be used: ${why}.${own}\n\nAnswer again, with the whole JSON object and nothing else.`;
  return { ...prompt, messages: [...prompt.messages, reply, user(said)] };
}

/** Past a file's end there is nothing to show but its end. */
function windowOf(text: string, line: number): Range {
  return around(Math.min(line, linesOf(text).length), PROMPT_LIMITS.repairLines);
}

export function user(text: string): Message {
  return { kind: "user", text, images: [] };
}

function section(title: string, texts: readonly string[]): string {
  return texts.length === 0 ? "" : [title, ...texts].join("\n\n");
}

export function failureText({ report: { failures } }: Subject): string {
  const { failureCount } = PROMPT_LIMITS;
  if (failures.length === 0) return "It fails, and does not say where.";
  const shown = failures.slice(0, failureCount).map(oneFailure);
  const more = failures.length - shown.length;
  return ["It fails:", ...shown, ...(more > 0 ? [`and ${more} more`] : [])].join("\n\n");
}

function oneFailure({ test, file, kind, message, frames }: Failure): string {
  const where = file === null || test.includes(file) ? "" : ` in ${file}`;
  const head = `${test === "" ? "a test" : test}${where} (${kind})`;
  const trace = frames.map((frame) =>
    `  at ${frame.file}:${frame.line} ${frame.function}`.trimEnd(),
  );
  return [head, message.slice(0, PROMPT_LIMITS.messageChars), ...trace].join("\n");
}

async function testTexts(subject: Subject): Promise<readonly string[]> {
  const ranked = new Set(subject.ranking.map(({ file }) => file));
  const texts: string[] = [];
  let left: number = PROMPT_LIMITS.testChars;
  for (const file of new Set(subject.tests)) {
    // A file that holds both the tests and the code is shown as code.
    const text = ranked.has(file) ? null : await subject.text(file);
    if (text === null) continue;
    const whole = listing(file, text, [WHOLE]);
    const ranges = testRanges(text, file, subject.report.failures);
    const shown = whole.length <= left || ranges.length === 0 ? whole : listing(file, text, ranges);
    if (shown.length > left) continue;
    left -= shown.length;
    texts.push(shown);
  }
  return texts;
}

const WHOLE: Range = { from: 1, to: Number.MAX_SAFE_INTEGER };

/** Around the lines that failed, and around those that name a test that did. */
function testRanges(text: string, file: string, failures: readonly Failure[]): readonly Range[] {
  const { testLines, failureCount } = PROMPT_LIMITS;
  const lines = linesOf(text);
  return failures.slice(0, failureCount).flatMap(({ test, frames }) => {
    const title =
      test
        .split(/::| > | › /)
        .at(-1)
        ?.replace(/\[.*\]$/, "")
        .trim() ?? "";
    const named = title === "" ? -1 : lines.findIndex((line) => line.includes(title));
    const failed = frames.filter((frame) => frame.file === file).map(({ line }) => line);
    const found = named < 0 ? failed : [named + 1, ...failed];
    return found.map((line) => around(line, testLines));
  });
}

/** Places in their order, as long as there is room; a file's lines stand together. */
async function sourceTexts(subject: Subject, effort: Effort): Promise<readonly string[]> {
  const files = new Map<string, { readonly text: string; readonly ranges: readonly Range[] }>();
  let left: number = PROMPT_LIMITS.sourceChars[effort];
  for (const place of subject.ranking.slice(0, PROMPT_LIMITS.placeCount)) {
    const { file } = place;
    const known = files.get(file);
    const text = known?.text ?? (await subject.text(file));
    if (text === null) continue;
    const lineCount = linesOf(text).length;
    const before = known?.ranges ?? [];
    const costBefore = known === undefined ? 0 : listing(file, text, before).length;
    for (const range of rangesOf(place, lineCount)) {
      const ranges = merged([...before, range], lineCount);
      const cost = listing(file, text, ranges).length - costBefore;
      if (cost > left) continue;
      left -= cost;
      files.set(file, { text, ranges });
      break;
    }
  }
  return [...files].map(([file, { text, ranges }]) => listing(file, text, ranges));
}

/**
 * What to show of a place: as much as there is room for, from the whole file to what is around one
 * line.
 */
function rangesOf(place: RankedPlace, lineCount: number): readonly Range[] {
  const { placeLines, wholeLines, windowLines } = PROMPT_LIMITS;
  const { firstLine, lastLine, lines } = place;
  const own = { from: firstLine - placeLines, to: lastLine + placeLines };
  const window = around(lines[0]?.line ?? firstLine, windowLines);
  return lineCount <= wholeLines ? [WHOLE, own, window] : [own, window];
}

async function extraTexts(subject: Subject, extra: readonly string[]): Promise<readonly string[]> {
  const texts: string[] = [];
  for (const file of extra) {
    const text = await subject.text(file);
    if (text !== null) texts.push(listing(file, head(text), [WHOLE]));
  }
  return texts;
}

/** The beginning of a text, in whole lines. */
function head(text: string): string {
  const { extraChars } = PROMPT_LIMITS;
  return text.length <= extraChars ? text : text.slice(0, text.lastIndexOf("\n", extraChars) + 1);
}

function triedTexts(tried: readonly Tried[]): readonly string[] {
  const { triedCount, triedChars } = PROMPT_LIMITS;
  return tried
    .slice(-triedCount)
    .map(({ diff, outcome }) => `${diff.slice(0, triedChars)}\n-> ${outcome.slice(0, triedChars)}`);
}
