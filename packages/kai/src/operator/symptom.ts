import type { Report } from "../report/report.ts";

/** What a failure shows of its kind, by what runners and languages say of it. */
export const SYMPTOMS = [
  "hang",
  "recursion",
  "range",
  "key",
  "attribute",
  "type",
  "unbound",
  "division",
  "other-error",
  "assertion",
  /** Of a value against the one that was expected. */
  "by-one",
  "sign",
  "number",
  "nothing",
  "empty",
  "not-empty",
  "truth",
  "falsehood",
  "longer",
  "shorter",
  "reordered",
  "elements",
  "text",
] as const;

export type Symptom = (typeof SYMPTOMS)[number];

/** The symptoms of all failures, and the lines that they happened on, as `file:line`. */
export type Symptoms = {
  readonly kinds: readonly Symptom[];
  readonly crashes: ReadonlySet<string>;
  /** Lines on the way to the one that failed. */
  readonly frames: ReadonlySet<string>;
  /** Texts and numbers that are said of the expected values alone. */
  readonly wanted: ReadonlySet<string>;
};

export const NO_SYMPTOMS: Symptoms = {
  kinds: [],
  crashes: new Set(),
  frames: new Set(),
  wanted: new Set(),
};

const FAILURES_MAX = 12;
const FRAMES_MAX = 40;

export function symptomsOf({ failures }: Report): Symptoms {
  const kinds = new Set<Symptom>();
  const crashes = new Set<string>();
  const frames = new Set<string>();
  const wanted = new Set<string>();
  for (const { message, frames: own, kind } of failures.slice(0, FAILURES_MAX)) {
    for (const symptom of said(message, kind)) kinds.add(symptom);
    for (const item of missing(message)) wanted.add(item);
    for (const [at, { file, line }] of own.slice(0, FRAMES_MAX).entries()) {
      (at === 0 ? crashes : frames).add(`${file}:${line}`);
    }
  }
  return { kinds: SYMPTOMS.filter((symptom) => kinds.has(symptom)), crashes, frames, wanted };
}

const ERRORS: readonly (readonly [Symptom, RegExp])[] = [
  ["hang", /did not end in time|timed? ?out/i],
  ["recursion", /RecursionError|Maximum call stack|StackOverflow/],
  ["range", /IndexError|out of (range|bounds)|OutOfBounds|pop from (an )?empty/],
  ["key", /KeyError|NoSuchElement/],
  ["attribute", /AttributeError|NullPointer|of (undefined|null)\b|is not a function/],
  ["unbound", /NameError|UnboundLocal|is not defined|cannot find symbol/],
  ["division", /ZeroDivision|by zero/],
  ["type", /TypeError|ClassCast|unsupported operand|not (iterable|callable|subscriptable)/],
];

function* said(message: string, kind: string): Generator<Symptom> {
  const found = ERRORS.find(([, shape]) => shape.test(message));
  if (found !== undefined) yield found[0];
  else yield kind === "assertion" ? "assertion" : "other-error";
  const values = compared(message);
  if (values !== null) yield* differing(values.actual.trim(), values.expected.trim());
}

/** The two values of an assertion, as the runners print them. */
function compared(message: string): { readonly actual: string; readonly expected: string } | null {
  const python = /^(?:AssertionError: )?assert (.+?) == (.+)$/m.exec(message);
  if (python !== null) return { actual: python[1] ?? "", expected: python[2] ?? "" };
  const node = /^\s*(.+?) !== (.+?)\s*$/m.exec(message);
  if (node !== null) return { actual: node[1] ?? "", expected: node[2] ?? "" };
  const apart = /^\s*AssertionError: (.+?) != (.+?)\s*$/m.exec(message);
  if (apart !== null) return { actual: apart[1] ?? "", expected: apart[2] ?? "" };
  const [plus, minus] = [lines(message, "+"), lines(message, "-")];
  return plus === "" && minus === "" ? null : { actual: plus, expected: minus };
}

function lines(message: string, mark: string): string {
  return message
    .split("\n")
    .filter((line) => line.startsWith(`${mark} `) && !/^\+ (actual|where)/.test(line))
    .map((line) => line.slice(2).trim())
    .join(" ");
}

function* differing(actual: string, expected: string): Generator<Symptom> {
  if (actual === "") return;
  if (/^(None|null|undefined|NaN)$/.test(actual)) yield "nothing";
  if (/^(true|True)$/.test(actual)) yield "truth";
  if (/^(false|False)$/.test(actual)) yield "falsehood";
  if (EMPTY.test(actual)) yield "empty";
  if (EMPTY.test(expected)) yield "not-empty";
  const [own, wanted] = [Number(actual), Number(expected)];
  if (expected !== "" && Number.isFinite(own) && Number.isFinite(wanted)) {
    if (Math.abs(own - wanted) === 1) yield "by-one";
    else if (own === -wanted) yield "sign";
    else yield "number";
    return;
  }
  if (/^["'`]/.test(actual)) yield "text";
  if (!/^[[({]/.test(actual) || !/^[[({]/.test(expected)) return;
  const [some, all] = [items(actual), items(expected)];
  if (some.length > all.length) yield "longer";
  else if (some.length < all.length) yield "shorter";
  else if (some.toSorted().join() === all.toSorted().join()) yield "reordered";
  else yield "elements";
}

function missing(message: string): readonly string[] {
  const values = compared(message);
  if (values === null) return [];
  const own = new Set(items(values.actual));
  return items(values.expected)
    .filter((item) => !own.has(item))
    .map((item) => item.replace(/^["'`]|["'`]$/g, ""))
    .slice(0, WANTED_MAX);
}

const WANTED_MAX = 40;

const EMPTY = /^(\[\]|\{\}|\(\)|''|""|0|set\(\))$/;

function items(text: string): readonly string[] {
  return text.match(/[^\s,[\](){}]+/g) ?? [];
}
