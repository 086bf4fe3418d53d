/** What stands at the head of a file, by field, and the text below it. */
export type FrontMatter<Text extends string, List extends string> = {
  readonly texts: Partial<Readonly<Record<Text, string>>>;
  readonly lists: Partial<Readonly<Record<List, readonly string[]>>>;
  readonly body: string;
};

/**
 * Reads front matter: of YAML just what such a file needs, fields that are a text, plain or in quotes,
 * on one line; and fields that are a list, with commas, in brackets, or a dash a line. Whatever else
 * YAML has is refused, and so is a field that is not known: one that was meant to narrow something must
 * not be passed over. What cannot be read answers why, the field first.
 */
export function readFrontMatter<Text extends string, List extends string>(
  text: string,
  textFields: readonly Text[],
  listFields: readonly List[],
): FrontMatter<Text, List> | string {
  const lines = text.replace(/^\ufeff/, "").split(/\r?\n/);
  const end = lines.indexOf("---", 1);
  if (lines[0] !== "---" || end < 0) {
    return 'it must begin with fields, between two lines that are "---"';
  }
  const texts: Partial<Record<Text, string>> = {};
  const lists: Partial<Record<List, readonly string[]>> = {};
  for (const entry of entriesOf(lines.slice(1, end))) {
    if (typeof entry === "string") return entry;
    const { name, rest, items } = entry;
    const asText = textFields.find((each) => each === name);
    const asList = listFields.find((each) => each === name);
    if (name in texts || name in lists) return `${name}: it stands there twice`;
    if (asText !== undefined) {
      const value = items.length === 0 ? textOf(rest) : null;
      if (value === null) return `${name}: it takes a text on one line, plain or in quotes`;
      texts[asText] = value;
    } else if (asList !== undefined) {
      const values = listOf(rest, items);
      if (values === null) return `${name}: it takes a list, with commas or with a dash a line`;
      lists[asList] = values;
    } else {
      return `${name}: there is no such field; there are ${[...textFields, ...listFields].join(", ")}`;
    }
  }
  return { texts, lists, body: lines.slice(end + 1).join("\n") };
}

type Entry = { readonly name: string; readonly rest: string; readonly items: readonly string[] };

/** Each field with what stands behind its colon, and the items below it; or why a line is neither. */
function* entriesOf(lines: readonly string[]): Generator<Entry | string> {
  let open: (Entry & { readonly items: string[] }) | null = null;
  for (const [at, line] of lines.entries()) {
    if (/^\s*(#|$)/.test(line)) continue;
    const item = /^\s*-\s+(.*)$/.exec(line)?.[1];
    const [, name, rest = ""] = /^([A-Za-z_-]+):(?:\s+(.*))?$/.exec(line) ?? [];
    if (item !== undefined && open !== null) {
      open.items.push(item);
    } else if (name !== undefined) {
      if (open !== null) yield open;
      open = { name, rest: rest.trim(), items: [] };
    } else {
      yield `line ${at + 2}: it is no field, which is written name: value`;
    }
  }
  if (open !== null) yield open;
}

/** A list that stands behind its field's colon, or below it; null for what is none. */
function listOf(rest: string, items: readonly string[]): readonly string[] | null {
  if (items.length > 0 && withoutComment(rest) !== "") return null;
  const bare = withoutComment(rest);
  if (bare === "[]") return [];
  const [, inner = bare] = /^\[(.*)\]$/.exec(bare) ?? [];
  const values = (items.length > 0 ? items : inner.split(",")).map(textOf);
  return values.every((value) => value !== null && value !== "") ? (values as string[]) : null;
}

/** A text, out of its quotes; null for one that is something else in YAML. */
function textOf(written: string): string | null {
  const text = withoutComment(written.trim());
  if (text.startsWith("'")) {
    return /^'(?:[^']|'')*'$/.test(text) ? text.slice(1, -1).replaceAll("''", "'") : null;
  }
  if (text.startsWith('"')) return quoted(text);
  // What these begin is a block, a list, a mapping, an anchor, an alias or a tag.
  return /^[|>[\]{}&*!%@`]/.test(text) ? null : text;
}

function quoted(text: string): string | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "string" ? value : null;
  } catch {
    return null;
  }
}

/** A value without the comment behind it. */
function withoutComment(text: string): string {
  const [, quotes] = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s+#/.exec(text) ?? [];
  return quotes ?? (/^["']/.test(text) ? text : text.replace(/(^|\s+)#.*$/, ""));
}
