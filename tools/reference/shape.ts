import type { Event, Op } from "@dev/protocol";
import type { AnyShape, AnyUnion, Layout, Slot, Type } from "../../packages/protocol/src/layout.ts";
import { emptyOf } from "../../packages/protocol/src/layout.ts";
import { anchorOf, code, table } from "./page.ts";
import {
  declared,
  type Member,
  membersOf,
  type Source,
  type Variant,
  variantsOf,
} from "./source.ts";

/** Past this many words a field's type refers to the table that has them. */
const WORDS_LIMIT = 10;

/** A shape and its docs: what a struct's fields are, or those of each variant of a union. */
export function describe(shape: AnyShape, sources: readonly Source[]): string {
  const { doc } = declared(sources, shape.name);
  const head = [`### ${shape.name}`, doc];
  if (shape.kind === "struct") {
    const members = membersOf(declared(sources, shape.name));
    return blocks([...head, sizeOf(shape.layout), fields(shape.layout, members, sources)]);
  }
  const variants = variantsOf(sources, shape.name);
  const parts = [...shape.byKind].map(([kind, layout]) => {
    const variant = variants.find(({ kinds }) => kinds.includes(kind));
    const title = `**${code(kind)}**`;
    const what = variant?.doc === doc ? "" : (variant?.doc ?? "");
    return blocks([
      `${title} ${what}`.trim(),
      tagsOf(shape, [layout]),
      fields(layout, variant?.members ?? [], sources),
    ]);
  });
  return blocks([...head, ...parts]);
}

/** The variants of a union, each with a heading and an example of its own, as far as `wanted`. */
export function describeVariants(
  shape: AnyUnion,
  title: string,
  sources: readonly Source[],
  examples: (kind: string) => readonly (Event | Op | object)[],
  wanted: (kind: string) => boolean = () => true,
): string {
  const groups = new Map<Variant | string, string[]>();
  const variants = variantsOf(sources, shape.name);
  for (const kind of [...shape.byKind.keys()].filter(wanted)) {
    const variant = variants.find(({ kinds }) => kinds.includes(kind)) ?? kind;
    groups.set(variant, [...(groups.get(variant) ?? []), kind]);
  }
  return blocks(
    [...groups].map(([variant, kinds]) => {
      const { doc, members } = typeof variant === "string" ? NO_DOCS : variant;
      const layouts = kinds
        .map((kind) => shape.byKind.get(kind))
        .filter((each) => each !== undefined);
      return blocks([
        `### ${title} ${kinds.map(code).join(", ")}`,
        doc,
        tagsOf(shape, layouts),
        layouts[0] === undefined ? "" : fields(layouts[0], members, sources),
        json(kinds.flatMap(examples)),
      ]);
    }),
  );
}

const NO_DOCS = { doc: "", members: [] };

/** Every shape that a value of this one may hold, itself first. */
export function* shapesIn(shape: AnyShape, seen: Set<AnyShape> = new Set()): Generator<AnyShape> {
  if (seen.has(shape)) return;
  seen.add(shape);
  yield shape;
  const layouts = shape.kind === "struct" ? [shape.layout] : [...shape.byKind.values()];
  for (const { type } of layouts.flatMap(({ slots }) => slots)) {
    if (type.kind === "object" || type.kind === "list") yield* shapesIn(type.of, seen);
  }
}

/** Values as JSON, each in as few lines as are readable. */
export function json(values: readonly unknown[]): string {
  if (values.length === 0) return "";
  return `\`\`\`json\n${values.map((value) => pretty(value, "")).join("\n")}\n\`\`\``;
}

export function blocks(parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join("\n\n");
}

function fields({ slots }: Layout, members: readonly Member[], sources: readonly Source[]): string {
  if (slots.length === 0) return "";
  const rows = slots.map((slot) => {
    const member = members.find(({ name }) => name === slot.name);
    const later = slot.presence === "later" ? "JSON may lack it. " : "";
    const doc = `${later}${member ? docOf(member, sources) : ""}`.trim();
    return [code(slot.name), wordsOf(slot, member), String(slot.at), doc];
  });
  return table(["field", "type", "byte", "what it is"], rows);
}

/** A field's docs; where they only point to a type, those of its field of the same name. */
function docOf({ name, doc }: Member, sources: readonly Source[]): string {
  const [, other] = doc.match(/^See `(\w+)`\.$/) ?? [];
  if (other === undefined) return doc;
  const found = membersOf(declared(sources, other)).find((member) => member.name === name);
  return found?.doc ?? doc;
}

function wordsOf({ type }: Slot, member: Member | undefined): string {
  if (/^(Turn|Action|Agent)Id$/.test(member?.type ?? "")) return `[${member?.type}](#ids)`;
  return typed(type);
}

function typed(type: Type): string {
  switch (type.kind) {
    case "code": {
      if (type.codes.size > WORDS_LIMIT) return "a [fault code](#fault-codes)";
      return [...type.codes].map(([word, number]) => `${code(word)} ${number}`).join(", ");
    }
    case "digest":
      return ["digest", ...type.words.map(code)].join(" or ");
    case "object":
      return linked(type.of);
    case "list":
      return `list of ${linked(type.of)}`;
    default:
      return type.kind;
  }
}

function linked({ name }: AnyShape): string {
  return `[${name}](#${anchorOf(HEADINGS[name] ?? name)})`;
}

/** The unions whose variants have headings of their own. */
const HEADINGS: Readonly<Record<string, string>> = { Event: "Events", Op: "Ops", CallOp: "Calls" };

function sizeOf({ sizeBytes }: Layout): string {
  return sizeBytes === 1 ? "1 byte." : `${sizeBytes} bytes.`;
}

/** What a variant's first byte is, and what it was in earlier releases. */
function tagsOf(shape: AnyUnion, layouts: readonly Layout[]): string {
  const tags = layouts.map(({ tag }) => tag);
  const [first] = layouts;
  const sizes = first ? sizeOf(first) : "";
  const now = `${tags.length > 1 ? "Tags" : "Tag"} ${tags.join(", ")}; ${sizes}`;
  const older = shape.byTag.filter(
    (layout) => layout !== undefined && layout.kind === first?.kind && !tags.includes(layout.tag),
  );
  return [now, ...older.map((layout) => (layout ? lacking(layout) : ""))].join(" ");
}

function lacking({ tag, slots }: Layout): string {
  const lacks = slots
    .filter(({ presence }) => presence === "absent")
    .map(
      ({ name, type }) => `${code(name)}, which reads as ${code(JSON.stringify(emptyOf(type)))}`,
    );
  return `Tag ${tag}, of an earlier release, is read too: it lacks ${lacks.join(" and ")}.`;
}

const LINE_LIMIT = 96;

function pretty(value: unknown, indent: string): string {
  const flat = spaced(value);
  if (indent.length + flat.length <= LINE_LIMIT) return flat;
  if (typeof value !== "object" || value === null) return flat;
  const inner = `${indent}  `;
  const isList = Array.isArray(value);
  const parts = Object.entries(value).map(([name, part]) => {
    return `${inner}${isList ? "" : `${JSON.stringify(name)}: `}${pretty(part, inner)}`;
  });
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  return `${open}\n${parts.join(",\n")}\n${indent}${close}`;
}

/** JSON in one line, with room in it. */
function spaced(value: unknown): string {
  if (typeof value !== "object" || value === null) {
    // A byte order mark is seen by no reader.
    return JSON.stringify(value).replaceAll("\ufeff", "\\ufeff");
  }
  if (Array.isArray(value)) return `[${value.map(spaced).join(", ")}]`;
  const parts = Object.entries(value).map(
    ([name, part]) => `${JSON.stringify(name)}: ${spaced(part)}`,
  );
  return parts.length === 0 ? "{}" : `{ ${parts.join(", ")} }`;
}
