import { posix } from "node:path";
import { expect, test } from "vitest";
import { anchorOf } from "./reference/page.ts";
import { filesOf, planted, readTree, type Tree } from "./tree.ts";

const tree = readTree();

test("every link within the repository's texts leads to a file and a heading", () => {
  expect(linksIn(tree).length).toBeGreaterThan(20);
  expect(broken(tree)).toEqual([]);
});

test.each([
  ["a file", "[x](absent.md)", "absent.md"],
  ["a folder above", "[x](../absent/)", "../absent/"],
  ["a heading of its own", "# Here\n\n[x](#there)", "#there"],
  ["a heading elsewhere", "[x](concepts.md#absent)", "concepts.md#absent"],
  ["a heading in a program", "```sh\n# there\n```\n[x](#there)", "#there"],
])("a link to %s that is not there is found", (_, text, to) => {
  expect(broken(planted(tree, "docs/planted.md", text))).toEqual([`docs/planted.md: ${to}`]);
});

test.each([
  ["a file", "[x](concepts.md)"],
  ["a folder", "[x](../examples/sample)"],
  ["a heading with code in it", "## The `x` of y, z\n\n[x](#the-x-of-y-z)"],
  ["the second of two headings", "# A\n\n# A\n\n[x](#a-1)"],
  ["another host", "[x](https://example.org/#y)"],
  ["nothing, in a program", "```md\n[x](absent.md)\n```"],
])("a link to %s is whole", (_, text) => {
  expect(broken(planted(tree, "docs/planted.md", text))).toEqual([]);
});

type Link = { readonly path: string; readonly to: string };

function broken(tree: Tree): readonly string[] {
  return linksIn(tree)
    .filter(({ path, to }) => !leads(tree, path, to))
    .map(({ path, to }) => `${path}: ${to}`);
}

function linksIn(tree: Tree): readonly Link[] {
  return filesOf(tree, /\.md$/).flatMap(([path, text]) =>
    [...prose(text).matchAll(/\]\(([^()\s]+)\)/g)]
      .map(([, to = ""]) => ({ path, to }))
      .filter(({ to }) => !/^[a-z]+:/.test(to)),
  );
}

function leads(tree: Tree, path: string, to: string): boolean {
  const [file = "", anchor] = to.split("#");
  const target = file === "" ? path : posix.join(posix.dirname(path), file).replace(/\/$/, "");
  const text = tree.get(target);
  if (anchor !== undefined) return text !== undefined && anchorsIn(text).includes(anchor);
  return text !== undefined || [...tree.keys()].some((each) => each.startsWith(`${target}/`));
}

/** The anchors of a text's headings; those that repeat one are numbered. */
function anchorsIn(text: string): readonly string[] {
  const counts = new Map<string, number>();
  return [...prose(text).matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = ""]) => {
    const anchor = anchorOf(heading);
    const count = counts.get(anchor) ?? 0;
    counts.set(anchor, count + 1);
    return count === 0 ? anchor : `${anchor}-${count}`;
  });
}

/** A text without the programs that it shows. */
function prose(text: string): string {
  return text.replaceAll(/^```[\s\S]*?^```$/gm, "");
}
