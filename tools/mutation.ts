import { moduleNames } from "./globals.ts";
import { childrenOf, type Node, nameOf, nodeAt, nodesAt, nodesIn } from "./syntax.ts";

/** A place where a module's own state is changed: it would be shared by all sessions of a process. */
export type Mutation = { readonly node: Node; readonly name: string };

/**
 * Where a module reassigns a name that it declares, or changes what such a name holds. A weak map may
 * be added to, as what it remembers cannot be seen. A value that goes by another name first is not followed.
 */
export function mutations(program: Node): readonly Mutation[] {
  const declared = declarationsOf(program);
  const parents = new Map<Node, Node>();
  for (const node of nodesIn(program)) {
    for (const child of childrenOf(node)) parents.set(child, node);
  }
  return moduleNames(program).flatMap(({ name, node }) => {
    if (!declared.has(name)) return [];
    return isChanged(node, declared.get(name), parents) ? [{ node, name }] : [];
  });
}

/** What each name of a module begins as, where that is written with it. */
function declarationsOf(program: Node): ReadonlyMap<string, Node | undefined> {
  const declared = new Map<string, Node | undefined>();
  for (const statement of nodesAt(program, "body")) {
    const declaration = nodeAt(statement, "declaration") ?? statement;
    const named = nameOf(nodeAt(declaration, "id"));
    if (named !== undefined) declared.set(named, undefined);
    if (declaration.type !== "VariableDeclaration") continue;
    for (const each of nodesAt(declaration, "declarations")) {
      const id = nodeAt(each, "id");
      if (id === undefined) continue;
      for (const part of nodesIn(id)) {
        const name = nameOf(part);
        if (name !== undefined) declared.set(name, part === id ? nodeAt(each, "init") : undefined);
      }
    }
  }
  return declared;
}

function isChanged(name: Node, init: Node | undefined, parents: ReadonlyMap<Node, Node>): boolean {
  let node = name;
  for (let parent = parents.get(node); parent !== undefined; parent = parents.get(node)) {
    if (parent.type === "MemberExpression" && parent.object === node) {
      const method = nameOf(nodeAt(parent, "property"));
      const isCalled = parents.get(parent)?.type === "CallExpression";
      if (isCalled && parents.get(parent)?.callee === parent) {
        return method !== undefined && isMutator(method, node === name ? init : undefined);
      }
    } else if (!isPartOfTarget(node, parent)) return isTarget(node, parent);
    node = parent;
  }
  return false;
}

/** Whether a method changes what it is called on; `init` is what that began as, where it is known. */
function isMutator(method: string, init: Node | undefined): boolean {
  if (init?.type === "NewExpression" && nameOf(nodeAt(init, "callee")) === "WeakMap") return false;
  const flags = (init?.regex as { readonly flags?: string } | undefined)?.flags ?? "";
  if (/[gy]/.test(flags) && /^(test|exec)$/.test(method)) return true;
  return MUTATORS.has(method);
}

const MUTATORS: ReadonlySet<string> = new Set([
  ...["add", "clear", "copyWithin", "delete", "fill", "next", "pop", "push", "reverse"],
  ...["set", "shift", "sort", "splice", "unshift"],
]);

/** Whether a node stands in a pattern, or only in brackets, so that what is around it decides. */
function isPartOfTarget(node: Node, parent: Node): boolean {
  switch (parent.type) {
    case "ArrayPattern":
    case "ObjectPattern":
    case "RestElement":
    case "ParenthesizedExpression":
      return true;
    case "Property":
      return parent.value === node;
    case "AssignmentPattern":
      return parent.left === node;
    default:
      return false;
  }
}

function isTarget(node: Node, parent: Node): boolean {
  switch (parent.type) {
    case "AssignmentExpression":
    case "ForInStatement":
    case "ForOfStatement":
      return parent.left === node;
    case "UpdateExpression":
      return true;
    case "UnaryExpression":
      return parent.operator === "delete";
    case "CallExpression":
      return isAssign(nodeAt(parent, "callee")) && nodesAt(parent, "arguments")[0] === node;
    default:
      return false;
  }
}

function isAssign(callee: Node | undefined): boolean {
  if (callee?.type !== "MemberExpression") return false;
  const isObject = nameOf(nodeAt(callee, "object")) === "Object";
  return isObject && nameOf(nodeAt(callee, "property")) === "assign";
}
