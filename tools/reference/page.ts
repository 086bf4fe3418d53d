/** What a page's generated parts hold, by their names. */
export type Parts = Readonly<Record<string, () => string>>;

const PART = /<!-- generated: ([a-z-]+) -->\n[\s\S]*?<!-- end -->/g;

/**
 * A page with its generated parts written anew; what is around them is written by hand, and stays. A
 * part without a place, and a place without a part, is a bug of the page, and throws.
 */
export function filled(page: string, parts: Parts): string {
  const missing = new Set(Object.keys(parts));
  const text = page.replaceAll(PART, (_, name: string) => {
    const part = parts[name];
    if (part === undefined) throw new Error(`nothing generates ${name}`);
    missing.delete(name);
    return `<!-- generated: ${name} -->\n\n${part().trim()}\n\n<!-- end -->`;
  });
  if (missing.size > 0) throw new Error(`the page has no place for ${[...missing].join(", ")}`);
  return text;
}

/** A table whose cells may hold anything but a line's end. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

export function code(text: string): string {
  return `\`${text}\``;
}

/** The anchor of a heading, as it is made for Markdown's headings on the web. */
export function anchorOf(heading: string): string {
  const words = heading.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, "");
  return words.trim().replaceAll(/\s/g, "-");
}

/** A figure whose name says its unit. */
export function figure(name: string, value: number): string {
  if (/bytes/i.test(name)) return bytes(value);
  if (/percent$/i.test(name)) return `${value} %`;
  if (/(?<!per_?)ms$/i.test(name)) return `${grouped(value)} ms`;
  return grouped(value);
}

function bytes(value: number): string {
  for (const [unit, size] of [
    ["MiB", 1024 * 1024],
    ["KiB", 1024],
  ] as const) {
    if (value > 0 && value % size === 0) return `${grouped(value / size)} ${unit}`;
  }
  return `${grouped(value)} bytes`;
}

function grouped(value: number): string {
  return String(value).replaceAll(/\B(?=(\d{3})+$)/g, ",");
}
