import { lineAt, type Node, nameOf, nodeAt, nodesIn, parse } from "./syntax.ts";

/** One import, re-export, dynamic import or imported type; `from` is "" where it is computed. */
export type Import = { readonly from: string; readonly line: number };

export function importsOf(path: string, text: string): readonly Import[] {
  return [...nodesIn(parse(path, text).program)].filter(isImport).map((node) => ({
    from: nameOf(nodeAt(node, "source")) ?? "",
    line: lineAt(text, node.start),
  }));
}

function isImport(node: Node): boolean {
  switch (node.type) {
    case "ImportDeclaration":
    case "ImportExpression":
    case "ExportAllDeclaration":
    case "TSImportType":
      return true;
    case "ExportNamedDeclaration":
      return nodeAt(node, "source") !== undefined;
    default:
      return false;
  }
}
