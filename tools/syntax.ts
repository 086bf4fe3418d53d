import { parseSync } from "rolldown/utils";

/** A node of an ESTree syntax tree, with TypeScript's own nodes; `start` and `end` are offsets. */
export type Node = {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
};

export type Syntax = {
  readonly program: Node;
  readonly comments: readonly { readonly value: string; readonly start: number }[];
};

/** Parses JavaScript or TypeScript, by the path's ending; what does not parse throws. */
export function parse(path: string, text: string): Syntax {
  const { program, comments, errors } = parseSync(path, text, { sourceType: "module" });
  const [error] = errors;
  if (error) throw new Error(`${path}: ${error.message}`);
  return { program: program as unknown as Node, comments };
}

/** Every node below `node`, itself first. */
export function* nodesIn(node: Node): Generator<Node> {
  yield node;
  for (const child of childrenOf(node)) yield* nodesIn(child);
}

export function childrenOf(node: Node): readonly Node[] {
  return Object.values(node)
    .flatMap((value) => (Array.isArray(value) ? value : [value]))
    .filter(isNode);
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}

/** The node in a field, where there is one. */
export function nodeAt(node: Node, field: string): Node | undefined {
  const value = node[field];
  return isNode(value) ? value : undefined;
}

export function nodesAt(node: Node, field: string): readonly Node[] {
  const value = node[field];
  return Array.isArray(value) ? value.filter(isNode) : [];
}

/** The name of an identifier, or the text of a string; undefined for any other node. */
export function nameOf(node: Node | undefined): string | undefined {
  if (node === undefined) return undefined;
  if (node.type === "Identifier") return String(node.name);
  return node.type === "Literal" && typeof node.value === "string" ? node.value : undefined;
}

/** The line of an offset, counted from 1. */
export function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split("\n").length;
}
