/** Reading JSON that others wrote: what is not of the shape one hopes for is as good as absent. */
export type Fields = { readonly [name: string]: unknown };

/** The fields of an object; null for what is none. */
export function fieldsOf(value: unknown): Fields | null {
  return value !== null && typeof value === "object" && !Array.isArray(value)
    ? (value as Fields)
    : null;
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** A text, or the texts of a list of parts; empty for anything else. */
export function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  return listOf(value)
    .map((part) => fieldsOf(part)?.text)
    .filter((text) => typeof text === "string")
    .join("");
}
