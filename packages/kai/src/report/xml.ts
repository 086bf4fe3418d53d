/** A tag of XML: `whole` is one that closes itself. A closing tag has the text since its opening one. */
export type Element = {
  readonly kind: "open" | "close" | "whole";
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly text: string;
};

const elementLimit = 200_000;
const textLimit = 100_000;

/** The tags of a text in order; what is no XML is passed over, and never throws. */
export function* elements(text: string): Generator<Element> {
  let said = "";
  let at = 0;
  for (let count = 0; count < elementLimit; count += 1) {
    const from = text.indexOf("<", at);
    if (from < 0) return;
    said = clipped(said + decoded(text.slice(at, Math.min(from, at + textLimit))));
    const cdata = "<![CDATA[";
    if (text.startsWith(cdata, from)) {
      const end = text.indexOf("]]>", from);
      if (end < 0) return;
      said = clipped(said + text.slice(from + cdata.length, Math.min(end, from + textLimit)));
      at = end + "]]>".length;
      continue;
    }
    tag.lastIndex = from;
    const match = tag.exec(text);
    if (match === null) {
      said = clipped(`${said}<`);
      at = from + 1;
      continue;
    }
    const [whole, slash = "", name = "", attributes = "", end = ""] = match;
    const kind = slash === "/" ? "close" : end === "/" ? "whole" : "open";
    yield { kind, name, attributes: attributesOf(attributes), text: said };
    said = "";
    at = from + whole.length;
  }
}

/** Runners leave `>` in values as it is, so a tag ends at the first that no quotes hold. */
const tag = /<(\/?)([\w:-]{1,40})((?:\s{1,40}[\w:.-]{1,60}="[^"]{0,100000}")*)\s*(\/?)>/y;

function attributesOf(text: string): ReadonlyMap<string, string> {
  const all = new Map<string, string>();
  for (const [, name = "", value = ""] of text.matchAll(/([\w:.-]+)="([^"]*)"/g)) {
    all.set(name, decoded(value));
  }
  return all;
}

const named: Readonly<Record<string, string>> = {
  lt: "<",
  gt: ">",
  amp: "&",
  quot: '"',
  apos: "'",
};

function decoded(text: string): string {
  return text.replaceAll(
    /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w{2,4}));/gi,
    (all, decimal, hex, name) => {
      if (name !== undefined) return named[name] ?? all;
      const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
      return code <= 0x10ffff ? String.fromCodePoint(code) : all;
    },
  );
}

function clipped(text: string): string {
  return text.length > textLimit ? text.slice(0, textLimit) : text;
}
