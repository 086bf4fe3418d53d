import type { Expect, ReadOp } from "@dev/protocol";
import * as v from "valibot";
import { defineTool, type Tool, unless } from "./tool.ts";

/** No file that a model reads has more lines; the protocol's integers hold it. */
const LINE_LIMIT = 2 ** 31 - 1;
/** Edits in one call of `patch`. */
const EDIT_LIMIT = 256;

const path = (what: string) => v.pipe(v.string(), v.description(what));

const line = (what: string) =>
  v.optional(
    v.pipe(
      v.number(),
      v.integer("expected a whole number"),
      v.minValue(0, "expected 0 or more"),
      v.maxValue(LINE_LIMIT, `expected at most ${LINE_LIMIT}`),
      v.description(what),
    ),
    0,
  );

const expectation = v.optional(
  v.pipe(
    v.string(),
    v.regex(/^(any|absent|[0-9a-f]{64})$/, "expected any, absent, or a digest that read answered"),
    v.description(
      "What the file must be beforehand: any; absent; or the digest from an earlier answer, to fail if it changed since.",
    ),
  ),
  "any",
);

export const READ: Tool = defineTool({
  name: "read",
  description:
    "Reads a text file, whole or a range of lines. Answers with the text, the file's size, its line count and its digest. Long answers are cut at the end and say so: read on with from. Fails if there is no such file or it is a directory.",
  schema: v.strictObject({
    path: path("Relative to the workspace."),
    from: line("First line, counted from 1; 0 is the start of the file."),
    to: line("Last line, included; 0 is the end of the file."),
  }),
  toOp: ({ path, from, to }): ReadOp | string =>
    to !== 0 && to < from
      ? `to: expected 0 or a line at or after from (${from}), got ${to}`
      : { kind: "read", path, from, to },
  toArguments: (op) => ({ path: op.path, from: unless(op.from, 0), to: unless(op.to, 0) }),
});

export const SEARCH: Tool = defineTool({
  name: "search",
  description:
    "Looks for a regular expression in the text or in the names of files below a path. Answers with path, line number and line of each match, up to a limit, and says if there were more. No match is an empty answer. Fails if the pattern is not a regular expression.",
  schema: v.strictObject({
    pattern: v.pipe(
      v.string(),
      v.nonEmpty("expected a pattern that is not empty"),
      v.description("A regular expression."),
    ),
    path: v.optional(path("Where to look, relative to the workspace."), "."),
    glob: v.optional(
      v.pipe(v.string(), v.description("Only files that match it, such as **/*.ts; empty is all.")),
      "",
    ),
    match: v.optional(
      v.pipe(v.picklist(["text", "name"]), v.description("What the pattern is looked for in.")),
      "text",
    ),
  }),
  toOp: (input) => ({ kind: "search", ...input }),
  toArguments: (op) => ({
    pattern: op.pattern,
    path: unless(op.path, "."),
    glob: unless(op.glob, ""),
    match: unless(op.match, "text"),
  }),
});

export const WRITE: Tool = defineTool({
  name: "write",
  description:
    "Writes a whole file, replacing what was there, and makes the directories above it. Answers with the digests before and after. Fails, changing nothing, if the file is not what expect says. To change part of a file use patch.",
  schema: v.strictObject({
    path: path("Relative to the workspace."),
    text: v.pipe(v.string(), v.description("The whole new text.")),
    expect: expectation,
  }),
  toOp: ({ path, text, expect }) => ({ kind: "write", path, text, expect: expect as Expect }),
  toArguments: (op) => ({ path: op.path, text: op.text, expect: unless(op.expect, "any") }),
});

export const PATCH: Tool = defineTool({
  name: "patch",
  description:
    "Changes part of a file, whole or not at all. Give either edits or diff. Answers with the digests before and after and how many lines changed. Fails, changing nothing, if an old text does not stand in the file exactly once, if the diff does not fit, or if the file is not what expect says.",
  schema: v.strictObject({
    path: path("Relative to the workspace."),
    edits: v.optional(
      v.pipe(
        v.array(
          v.strictObject({
            old: v.pipe(
              v.string(),
              v.nonEmpty("expected the text to replace, not an empty one"),
              v.description("Text that stands in the file exactly once, whitespace included."),
            ),
            new: v.pipe(v.string(), v.description("What takes its place.")),
          }),
        ),
        v.minLength(1, "expected at least one edit"),
        v.maxLength(EDIT_LIMIT, `expected at most ${EDIT_LIMIT} edits`),
        v.description("Applied in order."),
      ),
    ),
    diff: v.optional(v.pipe(v.string(), v.description("A unified diff of this one file."))),
    expect: expectation,
  }),
  toOp: ({ path, edits, diff, ...rest }) => {
    const expect = rest.expect as Expect;
    if (edits !== undefined && diff !== undefined) return "edits, diff: expected one, got both";
    if (edits !== undefined)
      return { kind: "patch", path, change: { kind: "edits", edits }, expect };
    if (diff !== undefined) return { kind: "patch", path, change: { kind: "diff", diff }, expect };
    return "edits: missing; expected edits, a list of {old, new}, or diff";
  },
  toArguments: (op) => ({
    path: op.path,
    ...(op.change.kind === "edits"
      ? { edits: op.change.edits.map((edit) => ({ old: edit.old, new: edit.new })) }
      : { diff: op.change.diff }),
    expect: unless(op.expect, "any"),
  }),
});
