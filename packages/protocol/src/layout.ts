import { never } from "./fault.ts";
import { type Digest, parseDigest } from "./id.ts";

/**
 * How types lie in a message: what a schema is written in. One description drives the codec, the
 * validation of JSON and the reference, so that they cannot differ; and a type whose description lacks
 * a field, a variant or a code, or has one too many, does not compile.
 */
export type Shape<T> = StructShape<T> | UnionShape<T>;
export type StructShape<T> = AnyStruct & Described<T>;
export type UnionShape<T> = AnyUnion & Described<T>;

/** A shape, of whatever type. */
export type AnyShape = AnyStruct | AnyUnion;

/** An object that has the same fields always. */
export type AnyStruct = {
  readonly kind: "struct";
  readonly name: string;
  readonly layout: Layout;
};

/** An object whose first byte is a tag, which says what its other fields are. */
export type AnyUnion = {
  readonly kind: "union";
  readonly name: string;
  readonly byKind: ReadonlyMap<string, Layout>;
  /** By tag; there is none at 0, which is what a missing object reads as. */
  readonly byTag: readonly (Layout | undefined)[];
};

declare const described: unique symbol;
// Neither wider nor narrower than T: a description with a code too few must not pass for the whole.
type Described<T> = { readonly [described]?: (value: T) => T };

/** The fields of one object. */
export type Layout = {
  /** The `kind` of a variant; empty for a struct. */
  readonly kind: string;
  /** The first byte of a variant's object; 0 for a struct, which has none. */
  readonly tag: number;
  /** The object's fixed part. */
  readonly sizeBytes: number;
  /** In the order of the type, which is that of the text in a message. */
  readonly slots: readonly Slot[];
  /** Those of the slots that point to an object or a list: written before the object. */
  readonly children: readonly Slot[];
  /** Those of the slots that are their value: written in the object. */
  readonly scalars: readonly Slot[];
  /** Those of the slots that are text: written after the object. */
  readonly texts: readonly Slot[];
};

export type Slot = {
  readonly name: string;
  readonly at: number;
  readonly type: Type;
  readonly presence: Presence;
};

/** A field that came later is `later`: JSON may lack it. In an object that is older it is `absent`. */
export type Presence = "always" | "later" | "absent";

export type Type =
  | { readonly kind: "bool" | "u32" | "i32" | "u64" | "text" | "texts" }
  /** One of some words, as a byte. */
  | { readonly kind: "code"; readonly names: readonly string[]; readonly codes: Codes }
  /** A SHA-256 digest as text, or one of the words that may stand for it. */
  | { readonly kind: "digest"; readonly words: readonly string[] }
  | { readonly kind: "object" | "list"; readonly of: AnyShape };

type Codes = ReadonlyMap<string, number>;

/** A field at byte `at` of its object. */
export type Field<T> = AnyField & Described<T>;

type AnyField = { readonly at: number; readonly type: Type };

export type Fields<T> = { readonly [Name in Exclude<keyof T, "kind">]: Field<T[Name]> };

export type Variant<T> = {
  readonly tag: number;
  readonly fields: Fields<T>;
  /** Tags that earlier releases wrote: the same fields at the same places, but for those that they lack. */
  readonly before?: readonly Before<Exclude<keyof T, "kind">>[];
};

type Before<Name> = { readonly tag: number; readonly lacks: readonly Name[] };

type AnyVariant = {
  readonly tag: number;
  readonly fields: AnyFields;
  readonly before?: readonly Before<string>[];
};

type AnyFields = Readonly<Record<string, AnyField>>;

export type Variants<T extends { readonly kind: string }> = {
  readonly [Kind in T["kind"]]: Variant<VariantOf<T, Kind>>;
};

// One type may stand for several kinds, which then have the same fields.
type VariantOf<T, Kind> = T extends { readonly kind: infer Kinds }
  ? Kind extends Kinds
    ? T
    : never
  : never;

export function struct<T>(name: string, fields: Fields<T>): StructShape<T> {
  return { kind: "struct", name, layout: layout("", 0, fields as AnyFields, [], "later") };
}

export function union<T extends { readonly kind: string }>(
  name: string,
  variants: Variants<T>,
): UnionShape<T> {
  const byKind = new Map<string, Layout>();
  const byTag: Layout[] = [];
  for (const [kind, variant] of Object.entries(variants as Record<string, AnyVariant>)) {
    const { tag, fields, before = [] } = variant;
    const later = before.flatMap(({ lacks }) => lacks);
    const made = layout(kind, tag, fields, later, "later");
    byKind.set(kind, made);
    byTag[tag] = made;
    for (const older of before) {
      byTag[older.tag] = layout(kind, older.tag, fields, older.lacks, "absent");
    }
  }
  return { kind: "union", name, byKind, byTag };
}

export function boolAt(at: number): Field<boolean> {
  return { at, type: { kind: "bool" } };
}

export function u32At(at: number): Field<number> {
  return { at, type: { kind: "u32" } };
}

export function i32At(at: number): Field<number> {
  return { at, type: { kind: "i32" } };
}

/** A whole number below 2^53. */
export function u64At(at: number): Field<number> {
  return { at, type: { kind: "u64" } };
}

/** A numeric id, of the type that its field has. */
export function idAt<T extends number>(at: number): Field<T> {
  return { at, type: { kind: "u64" } };
}

export function textAt(at: number): Field<string> {
  return { at, type: { kind: "text" } };
}

/** A digest, or one of `words`. */
export function digestAt<Word extends string = never>(
  at: number,
  words: readonly Word[] = [],
): Field<Digest | Word> {
  return { at, type: { kind: "digest", words } };
}

/** One of some words, by its number: from 1, since 0 is what a missing field reads as. */
export function codeAt<T extends string>(
  at: number,
  codes: { readonly [Name in T]: number },
): Field<T> {
  const names: string[] = [];
  const byName = new Map<string, number>(Object.entries<number>(codes));
  for (const [name, code] of byName) names[code] = name;
  return { at, type: { kind: "code", names, codes: byName } };
}

export function objectAt<T>(at: number, of: Shape<T>): Field<T> {
  return { at, type: { kind: "object", of } };
}

export function textsAt(at: number): Field<readonly string[]> {
  return { at, type: { kind: "texts" } };
}

export function listAt<T>(at: number, of: Shape<T>): Field<readonly T[]> {
  return { at, type: { kind: "list", of } };
}

/** How many bytes of its object a field takes. */
export function widthOf(type: Type): number {
  switch (type.kind) {
    case "bool":
    case "code":
      return 1;
    case "u32":
    case "i32":
    case "object":
      return 4;
    case "u64":
    case "text":
    case "texts":
    case "digest":
    case "list":
      return 8;
    default:
      return never(type);
  }
}

/** What a field reads as where there is none. Only a field of such a type may come later. */
export function emptyOf(type: Type): unknown {
  switch (type.kind) {
    case "bool":
      return false;
    case "u32":
    case "i32":
    case "u64":
      return 0;
    case "text":
      return "";
    case "texts":
    case "list":
      return [];
    case "code":
    case "digest":
    case "object":
      throw new Error(`no ${type.kind} is empty`);
    default:
      return never(type);
  }
}

/** Whether a value is a number that a field of this type can hold. */
export function fits(kind: "u32" | "i32" | "u64", value: unknown): value is number {
  if (!Number.isSafeInteger(value)) return false;
  const number = value as number;
  switch (kind) {
    case "u32":
      return number >= 0 && number < 2 ** 32;
    case "i32":
      return number >= -(2 ** 31) && number < 2 ** 31;
    case "u64":
      return number >= 0;
    default:
      return never(kind);
  }
}

/** Whether a text is a digest, or one of the words that may stand for it. */
export function isDigest(words: readonly string[], text: string): boolean {
  return words.includes(text) || parseDigest(text).ok;
}

function layout(
  kind: string,
  tag: number,
  fields: AnyFields,
  named: readonly string[],
  presence: Presence,
): Layout {
  const slots = Object.entries(fields).map(
    ([name, { at, type }]): Slot => ({
      name,
      at,
      type,
      presence: named.includes(name) ? presence : "always",
    }),
  );
  const held = slots.filter((slot) => slot.presence !== "absent");
  const of = (...kinds: readonly Type["kind"][]) =>
    held.filter((slot) => kinds.includes(slot.type.kind));
  return {
    kind,
    tag,
    // The tag of a union is its first byte, and a variant without fields has no more than that.
    sizeBytes: Math.max(1, ...held.map((slot) => slot.at + widthOf(slot.type))),
    slots,
    children: of("object", "list", "texts"),
    scalars: of("bool", "u32", "i32", "u64", "code"),
    texts: of("text", "digest"),
  };
}
