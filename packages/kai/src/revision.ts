import { createHash } from "node:crypto";

/** The content of the files that a run touched, and of no others: what an action was decided upon. */
export type Revision = string & { readonly [brand]: "Revision" };

declare const brand: unique symbol;

/** The revision of texts by their file; the order in which they are given does not matter. */
export function revisionOf(texts: ReadonlyMap<string, string>): Revision {
  const hash = createHash("sha256");
  for (const [file, text] of [...texts].sort(([a], [b]) => (a < b ? -1 : 1))) {
    hash.update(`${file}\0${digestOf(text)}\n`);
  }
  return hash.digest("hex").slice(0, 32) as Revision;
}

/** SHA-256 of a file's bytes, in hexadecimal. */
export function digestOf(bytes: string | Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
