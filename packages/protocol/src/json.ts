import type { Action } from "./action.ts";
import type { Event } from "./event.ts";
import { never, ok, type Result } from "./fault.ts";
import { type Flaw, flawed, malformed, within } from "./flaw.ts";
import {
  type AnyShape,
  emptyOf,
  fits,
  isDigest,
  type Layout,
  type Shape,
  type Type,
} from "./layout.ts";
import { NESTING_LIMIT } from "./limit.ts";
import { ACTION, EVENT } from "./schema.ts";
import { isWellFormed } from "./utf8.ts";

/*
 * The JSON projection: an event or action is JSON as it is, with the names of its type, so writing
 * needs nothing. Reading checks every field, and says which one is wrong.
 */

/**
 * Reads an event from parsed JSON, as a new object: what its type does not name is left out. Fault:
 * `malformed`, with the path as its subject, such as `answer.calls[2].op.argv[0]`.
 */
export function eventFromJson(value: unknown): Result<Event> {
  return shapeFromJson(EVENT, value);
}

/** Reads an action from parsed JSON, as `eventFromJson` does. */
export function actionFromJson(value: unknown): Result<Action> {
  return shapeFromJson(ACTION, value);
}

/** Reads a value of any shape from parsed JSON, as `eventFromJson` does. */
export function shapeFromJson<T>(shape: Shape<T>, value: unknown): Result<T> {
  const flaw: Flaw = { why: "", path: "" };
  const read = takeShape(value, shape, flaw, 0);
  return read === undefined ? malformed(flaw, shape.name) : ok(read as T);
}

type Value = Record<string, unknown>;

function takeShape(value: unknown, shape: AnyShape, flaw: Flaw, depth: number): Value | undefined {
  if (depth > NESTING_LIMIT) {
    return flawed(flaw, `nests deeper than NESTING_LIMIT (${NESTING_LIMIT})`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return flawed(flaw, notA("an object", value));
  }
  const given = value as Readonly<Value>;
  if (shape.kind === "struct") return takeObject(given, shape.layout, flaw, depth);
  const kind = own(given, "kind");
  const layout = typeof kind === "string" ? shape.byKind.get(kind) : undefined;
  if (layout !== undefined) return takeObject(given, layout, flaw, depth);
  flawed(flaw, typeof kind === "string" ? `is unknown: ${quoted(kind)}` : notA("text", kind));
  return within(flaw, ".kind");
}

function takeObject(
  given: Readonly<Value>,
  layout: Layout,
  flaw: Flaw,
  depth: number,
): Value | undefined {
  const taken: Value = layout.tag === 0 ? {} : { kind: layout.kind };
  for (const slot of layout.slots) {
    const value = own(given, slot.name);
    const isOlder = value === undefined && slot.presence === "later";
    const field = isOlder ? emptyOf(slot.type) : takeField(value, slot.type, flaw, depth);
    if (field === undefined) return within(flaw, `.${slot.name}`);
    taken[slot.name] = field;
  }
  return taken;
}

function takeField(value: unknown, type: Type, flaw: Flaw, depth: number): unknown {
  switch (type.kind) {
    case "text":
      return takeText(value, flaw);
    case "bool":
      return typeof value === "boolean" ? value : flawed(flaw, notA("true or false", value));
    case "u32":
    case "i32":
    case "u64":
      // Adding 0 turns JSON's -0, which no wire carries, into 0.
      return fits(type.kind, value) ? value + 0 : flawed(flaw, notA(RANGES[type.kind], value));
    case "code": {
      if (typeof value === "string" && type.codes.has(value)) return value;
      return flawed(flaw, notA(`one of ${[...type.codes.keys()].join(", ")}`, value));
    }
    case "digest": {
      if (typeof value === "string" && isDigest(type.words, value)) return value;
      return flawed(flaw, notA(["a SHA-256 digest", ...type.words].join(" or "), value));
    }
    case "object":
      return takeShape(value, type.of, flaw, depth + 1);
    case "texts":
      return takeList(value, flaw, (element) => takeText(element, flaw));
    case "list":
      return takeList(value, flaw, (element) => takeShape(element, type.of, flaw, depth + 1));
    default:
      return never(type);
  }
}

const RANGES = {
  u32: "a whole number from 0 below 2^32",
  i32: "a whole number from -2^31 below 2^31",
  u64: "a whole number from 0 below 2^53",
} as const;

// A lone surrogate has no UTF-8: it would come back from the wire as another text.
function takeText(value: unknown, flaw: Flaw): string | undefined {
  if (typeof value !== "string") return flawed(flaw, notA("text", value));
  return isWellFormed(value) ? value : flawed(flaw, "holds half of a surrogate pair");
}

function takeList<T>(
  value: unknown,
  flaw: Flaw,
  take: (element: unknown) => T | undefined,
): T[] | undefined {
  if (!Array.isArray(value)) return flawed(flaw, notA("a list", value));
  const taken: T[] = [];
  for (const element of value as readonly unknown[]) {
    const made = take(element);
    if (made === undefined) return within(flaw, `[${taken.length}]`);
    taken.push(made);
  }
  return taken;
}

/** A field that an object has itself: `constructor` and the like are no fields. */
function own(value: Readonly<Value>, name: string): unknown {
  return Object.hasOwn(value, name) ? value[name] : undefined;
}

function notA(wanted: string, value: unknown): string {
  if (value === undefined) return `is missing: ${wanted}`;
  return `is not ${wanted}: ${quoted(value)}`;
}

const QUOTE_LIMIT = 40;

/** A scalar as it was given, shortened; of anything larger only what it is. */
function quoted(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "an object";
  if (typeof value !== "string") return String(value);
  return JSON.stringify(value.length > QUOTE_LIMIT ? `${value.slice(0, QUOTE_LIMIT)}…` : value);
}
