import { writeFileSync } from "node:fs";
import { coreParts } from "./reference/core.ts";
import { filled, type Parts } from "./reference/page.ts";
import { protocolParts } from "./reference/protocol.ts";
import { ROOT, readTree, type Tree } from "./tree.ts";

/** The pages of which parts are generated. The rest of them is written by hand, in place. */
const PAGES: Readonly<Record<string, (tree: Tree) => Parts>> = {
  "docs/reference/protocol.md": protocolParts,
  "docs/reference/core.md": coreParts,
};

/** Each page as it should be: its text with the generated parts made anew from the sources. */
export function referencePages(tree: Tree): ReadonlyMap<string, string> {
  return new Map(
    Object.entries(PAGES).map(([path, partsOf]) => [
      path,
      filled(tree.get(path) ?? "", partsOf(tree)),
    ]),
  );
}

/** Writes the pages that are not as they should be; their paths. */
export function writeReference(): readonly string[] {
  const tree = readTree();
  const pages = [...referencePages(tree)].filter(([path, text]) => tree.get(path) !== text);
  for (const [path, text] of pages) writeFileSync(ROOT + path, text);
  return pages.map(([path]) => path);
}
