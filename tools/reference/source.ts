import { type Node, nameOf, nodeAt, nodesAt, parse } from "../syntax.ts";
import { filesOf, type Tree } from "../tree.ts";

/** A file of TypeScript, as far as its declarations and their docs are wanted. */
export type Source = {
  readonly text: string;
  readonly comments: readonly Comment[];
  readonly declarations: ReadonlyMap<string, Declaration>;
};

type Comment = { readonly value: string; readonly start: number; readonly end: number };

/** Something exported by its name, with its docs as one line. */
export type Declaration = {
  readonly name: string;
  readonly doc: string;
  readonly node: Node;
  readonly source: Source;
};

/** A field or a call of a type. */
export type Member = {
  readonly name: string;
  readonly doc: string;
  /** As the source writes it. */
  readonly code: string;
  /** The type of a field, as the source writes it; empty for a call. */
  readonly type: string;
};

/** One member of a union: the kinds that it stands for, and its fields. */
export type Variant = {
  readonly kinds: readonly string[];
  readonly doc: string;
  readonly members: readonly Member[];
};

/** The sources of a package. */
export function sourcesOf(tree: Tree, name: string): readonly Source[] {
  const files = filesOf(tree, new RegExp(`^packages/${name}/src/.*\\.ts$`));
  return files.map(([path, text]) => readSource(path, text));
}

function readSource(path: string, text: string): Source {
  const { program, comments } = parse(path, text);
  const declarations = new Map<string, Declaration>();
  const source = { text, comments: comments as readonly Comment[], declarations };
  for (const exported of nodesAt(program, "body")) {
    if (exported.type !== "ExportNamedDeclaration") continue;
    const node = nodeAt(exported, "declaration");
    const name = node && nameOf(nodeAt(nodesAt(node, "declarations")[0] ?? node, "id"));
    if (!node || !name) continue;
    declarations.set(name, { name, doc: docBefore(source, exported), node, source });
  }
  return source;
}

/** A declaration of one of the sources; one that is not there is a bug of the generator's. */
export function declared(sources: readonly Source[], name: string): Declaration {
  for (const source of sources) {
    const found = source.declarations.get(name);
    if (found) return found;
  }
  throw new Error(`no source exports ${name}`);
}

/** The fields and calls of an interface or of an object type. */
export function membersOf({ node, source }: Pick<Declaration, "node" | "source">): Member[] {
  const body = nodeAt(node, "typeAnnotation") ?? nodeAt(node, "body") ?? node;
  const members = nodesAt(body, "members").concat(nodesAt(body, "body"));
  return members.map((member) => {
    const annotation = nodeAt(member, "typeAnnotation");
    const type = annotation && nodeAt(annotation, "typeAnnotation");
    return {
      name: nameOf(nodeAt(member, "key")) ?? "",
      doc: docBefore(source, member),
      code: source.text.slice(member.start, member.end).replace(/;$/, ""),
      type: type ? source.text.slice(type.start, type.end) : "",
    };
  });
}

/** The variants of a union, with those of the unions that it names. */
export function variantsOf(sources: readonly Source[], name: string): readonly Variant[] {
  const { node, doc, source } = declared(sources, name);
  const body = nodeAt(node, "typeAnnotation") ?? node;
  if (body.type !== "TSUnionType") return [variantOf(body, doc, source)];
  return nodesAt(body, "types").flatMap((type) => {
    const named = nameOf(nodeAt(type, "typeName"));
    if (named !== undefined) return variantsOf(sources, named);
    return [variantOf(type, docBefore(source, type), source)];
  });
}

function variantOf(node: Node, doc: string, source: Source): Variant {
  const members = membersOf({ node, source });
  const kind = members.find((member) => member.name === "kind")?.type ?? "";
  const kinds = [...kind.matchAll(/"(\w+)"/g)].map(([, word = ""]) => word);
  return { kinds, doc, members: members.filter((member) => member.name !== "kind") };
}

/** The comment that stands right in front of a node, as one line; empty where there is none. */
export function docBefore({ text, comments }: Source, node: Node): string {
  const comment = comments.findLast(({ end }) => end <= node.start);
  if (!comment?.value.startsWith("*")) return "";
  // A union's bar stands between a member and its docs.
  if (!/^[\s|]*$/.test(text.slice(comment.end, node.start))) return "";
  const lines = comment.value.split("\n").map((line) => line.replace(/^\s*\* ?/, "").trim());
  return lines.join(" ").trim();
}
