import type { Schema } from "./asker.ts";

/** An edit as a model writes it: `old`, which begins on `line`, becomes `new`. */
export type Proposal = {
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
  readonly old: string;
  readonly new: string;
};

/** What an answer's text says. */
export type Reading =
  /** Never empty. */
  | { readonly kind: "edits"; readonly proposals: readonly Proposal[] }
  /** It has a list of edits with none in it; `names` are what of its text may be files. */
  | { readonly kind: "no_edits"; readonly names: readonly string[] }
  /** There is JSON that does not read, or that is no edit; `why` is for the one who wrote it. */
  | { readonly kind: "unreadable"; readonly why: string }
  | { readonly kind: "no_json" };

export const ANSWER_LIMITS = {
  editCount: 32,
  /** Of what may be files, those that are looked for. */
  nameCount: 20,
  /** Objects around the word `edits` that are tried. */
  startCount: 64,
} as const;

/** The shape of an answer: at least one edit. */
export const EDITS_SCHEMA: Schema = {
  name: "edits",
  schema: {
    type: "object",
    properties: {
      edits: {
        type: "array",
        minItems: 1,
        items: {
          type: "object",
          properties: {
            file: { type: "string" },
            line: { type: "integer", minimum: 1 },
            old: { type: "string" },
            new: { type: "string" },
          },
          required: ["file", "line", "old", "new"],
          additionalProperties: false,
        },
      },
    },
    required: ["edits"],
    additionalProperties: false,
  },
};

/**
 * Reads an answer. Prose and fences around the JSON are passed over; the last object with edits
 * counts, as models think aloud before they answer. What is in it is taken as it is or not at all.
 */
export function readAnswer(text: string): Reading {
  const found = editsIn(text);
  if (found === null) {
    if (text.includes('"edits"'))
      return unreadable("the JSON does not read, or stops in the middle");
    if (/[{[]\s*["{[\]}]/.test(text)) return unreadable('the JSON has no "edits"');
    return { kind: "no_json" };
  }
  if (found.length === 0) return { kind: "no_edits", names: namesIn(text) };
  if (found.length > ANSWER_LIMITS.editCount) {
    return unreadable(`more than ${ANSWER_LIMITS.editCount} edits`);
  }
  const proposals: Proposal[] = [];
  for (const [at, value] of found.entries()) {
    const proposal = proposalOf(value);
    if (typeof proposal === "string") return unreadable(`edit ${at + 1}: ${proposal}`);
    proposals.push(proposal);
  }
  return { kind: "edits", proposals };
}

/** The last JSON object of a text that has this field; null where there is none that reads. */
export function objectWith(text: string, field: string): Readonly<Record<string, unknown>> | null {
  const key = JSON.stringify(field);
  let left: number = ANSWER_LIMITS.startCount;
  for (let at = text.lastIndexOf(key); at >= 0; at = text.lastIndexOf(key, at - 1)) {
    for (let from = text.lastIndexOf("{", at); from >= 0; from = text.lastIndexOf("{", from - 1)) {
      if (left === 0) return null;
      left -= 1;
      const end = endOf(text, from);
      const value = end === null ? null : fieldsOf(text.slice(from, end));
      if (value !== null && Object.hasOwn(value, field)) return value;
      if (from === 0) break;
    }
    if (at === 0) break;
  }
  return null;
}

function editsIn(text: string): readonly unknown[] | null {
  const edits = objectWith(text, "edits")?.edits;
  return Array.isArray(edits) ? edits : null;
}

/** Where the object that begins here ends, by its brackets; null where it does not. */
function endOf(text: string, from: number): number | null {
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    const char = text[at];
    if (char === '"') {
      at = stringEnd(text, at);
    } else if (char === "{" || char === "[") {
      depth += 1;
    } else if (char === "}" || char === "]") {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return null;
}

function stringEnd(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === '"') return at;
  }
  return text.length;
}

function fieldsOf(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** A proposal, or what is wrong with it. */
function proposalOf(value: unknown): Proposal | string {
  if (typeof value !== "object" || value === null) return "it is no object";
  const { file, line, old, new: made } = value as Record<string, unknown>;
  if (typeof file !== "string" || file === "") return '"file" must be a path';
  if (typeof line !== "number" || !Number.isSafeInteger(line) || line < 1) {
    return '"line" must be a whole number from 1';
  }
  if (typeof old !== "string") return '"old" must be a text';
  if (typeof made !== "string") return '"new" must be a text';
  return { file, line, old, new: made };
}

/** What looks like a path with an ending, each once, in its order. */
function namesIn(text: string): readonly string[] {
  // Two steps, each of which looks at a character once: an answer may be long, and all one word.
  const words = text.match(/[\w@.+/-]{3,300}/g) ?? [];
  const names = words.map((word) => word.replace(/\.+$/, "")).filter((word) => /\.\w+$/.test(word));
  return [...new Set(names)].slice(0, ANSWER_LIMITS.nameCount);
}

function unreadable(why: string): Reading {
  return { kind: "unreadable", why };
}
