import { type CallOp, OWN_SERVER, type ToolOp } from "@dev/protocol";
import * as v from "valibot";

/** A tool that a model may be offered: what it is told, and how its arguments become an op. */
export type Tool = {
  readonly name: ToolName;
  readonly description: string;
  /** Its arguments; the JSON Schema in `schemas.ts` is made from it. */
  readonly schema: v.GenericSchema;
  /** Reads arguments; an op, or the reason why they are none. */
  readonly read: (input: object) => Reading;
  /** The arguments that `read` makes this op of; null for the op of another tool. */
  readonly write: (op: CallOp) => object | null;
};

export type ToolName =
  | "read"
  | "search"
  | "write"
  | "patch"
  | "exec"
  | "git"
  | "fix"
  | "question"
  | "plan"
  | "spawn";

export type Reading =
  | { readonly kind: "op"; readonly op: CallOp }
  | { readonly kind: "refused"; readonly reason: string };

/** A schema of one object that takes no other argument than its own. */
type Arguments = v.StrictObjectSchema<v.ObjectEntries, undefined>;

/** The op of a tool of Dev's own is no kind of itself: its server and its name say which it is. */
type OpOf<K extends ToolName> = K extends "fix" ? ToolOp : Extract<CallOp, { readonly kind: K }>;

export type Definition<K extends ToolName, S extends Arguments> = {
  readonly name: K;
  readonly description: string;
  readonly schema: S;
  /** The op, or the reason why there is none. */
  readonly toOp: (input: v.InferOutput<S>) => OpOf<K> | string;
  /** Leaves out what equals its default, so that a conversation reads as models write. */
  readonly toArguments: (op: OpOf<K>) => v.InferInput<S>;
};

export function defineTool<K extends ToolName, S extends Arguments>(
  definition: Definition<K, S>,
): Tool {
  const { name, schema } = definition;
  return {
    name,
    description: definition.description,
    schema,
    read(input) {
      const parsed = v.safeParse(schema, withoutNulls(input), { abortEarly: true });
      if (!parsed.success) return refused(reasonOf(name, schema, parsed.issues[0]));
      const op = definition.toOp(parsed.output);
      return typeof op === "string" ? refused(op) : { kind: "op", op };
    },
    write: (op) => (isKind(op, name) ? definition.toArguments(op) : null),
  };
}

/** A field's value, or nothing where it is the default: `undefined` is left out of JSON. */
export function unless<T>(value: T, byDefault: T): T | undefined {
  return value === byDefault ? undefined : value;
}

function isKind<K extends ToolName>(op: CallOp, name: K): op is OpOf<K> {
  return op.kind === "tool" ? op.server === OWN_SERVER && op.name === name : op.kind === name;
}

function refused(reason: string): Reading {
  return { kind: "refused", reason };
}

/** Models say `null` for an argument that they leave out. */
function withoutNulls(input: object): object {
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== null));
}

function reasonOf(name: string, schema: Arguments, issue: v.BaseIssue<unknown>): string {
  const field = v.getDotPath(issue) ?? "arguments";
  if (issue.kind === "validation") return `${field}: ${issue.message}`;
  if (issue.expected === "never") {
    const known = Object.keys(schema.entries).join(", ");
    return `${field}: not an argument of ${name}, which takes ${known}`;
  }
  if (issue.type === "strict_object" && issue.received === "undefined") {
    return `${field}: missing; ${name} cannot do without it`;
  }
  const expected = issue.expected === "Object" ? "an object" : (issue.expected ?? "another value");
  return `${field}: expected ${expected}, got ${kindOf(issue.input)}`;
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "string" && value.length <= 40) return JSON.stringify(value);
  return typeof value === "number" ? String(value) : `a ${typeof value}`;
}
