import { type Free, freeNames } from "./globals.ts";
import { mutations } from "./mutation.ts";
import { lineAt, type Node, nameOf, nodeAt, nodesIn, parse } from "./syntax.ts";

/**
 * The globals that pure code may use, and how: `value` as any value, `make` by calling it, by `new`
 * or after `instanceof`. Members are allowed one by one: those that give the same on every host.
 */
const ALLOWED: Readonly<Record<string, Use>> = {
  undefined: { value: true, make: false, members: [] },
  NaN: { value: true, make: false, members: [] },
  Infinity: { value: true, make: false, members: [] },
  Array: { value: false, make: true, members: ["from", "isArray", "of"] },
  BigInt: { value: true, make: true, members: ["asIntN", "asUintN"] },
  Boolean: { value: true, make: true, members: [] },
  DataView: { value: false, make: true, members: [] },
  ArrayBuffer: { value: false, make: true, members: ["isView"] },
  BigInt64Array: { value: false, make: true, members: [] },
  BigUint64Array: { value: false, make: true, members: [] },
  Error: { value: false, make: true, members: [] },
  RangeError: { value: false, make: true, members: [] },
  TypeError: { value: false, make: true, members: [] },
  encodeURIComponent: { value: false, make: true, members: [] },
  Float64Array: { value: false, make: true, members: ["from", "of"] },
  Int32Array: { value: false, make: true, members: ["from", "of"] },
  Uint8Array: { value: false, make: true, members: ["from", "of"] },
  Uint32Array: { value: false, make: true, members: ["from", "of"] },
  JSON: { value: false, make: false, members: ["parse", "stringify"] },
  Map: { value: false, make: true, members: [] },
  Set: { value: false, make: true, members: [] },
  // What a weak map still holds cannot be seen: it serves to remember what was computed.
  WeakMap: { value: false, make: true, members: [] },
  Math: {
    value: false,
    make: false,
    // Not the transcendental ones: their last digit differs from one engine to the next.
    members: ["abs", "ceil", "clz32", "floor", "imul", "max", "min", "round", "sign", "trunc"],
  },
  Number: {
    value: true,
    make: true,
    members: [
      "EPSILON",
      "MAX_SAFE_INTEGER",
      "MIN_SAFE_INTEGER",
      "isFinite",
      "isInteger",
      "isNaN",
      "isSafeInteger",
      "parseFloat",
      "parseInt",
    ],
  },
  Object: {
    value: false,
    make: false,
    members: [
      "assign",
      "create",
      "entries",
      "freeze",
      "fromEntries",
      "hasOwn",
      "is",
      "keys",
      "values",
    ],
  },
  String: { value: true, make: true, members: ["fromCharCode", "fromCodePoint", "raw"] },
  Symbol: { value: false, make: false, members: ["iterator"] },
};

type Use = { readonly value: boolean; readonly make: boolean; readonly members: readonly string[] };

/** Properties that lead out to `Function`, to the engine's own text, or to the host's locale. */
const REFUSED_PROPERTIES: readonly string[] = [
  "__proto__",
  "constructor",
  "localeCompare",
  "stack",
  "toLocaleDateString",
  "toLocaleLowerCase",
  "toLocaleString",
  "toLocaleTimeString",
  "toLocaleUpperCase",
];

/**
 * What in a bundle could differ between two runs or two hosts, each with its line. It reads names as
 * they are written: a property whose name is put together at run time is not seen.
 */
export function impurities(text: string): readonly string[] {
  const { program } = parse("bundle.js", text);
  const free = freeNames(program).flatMap((each) => at(text, each.node, refusedName(each)));
  const syntax = [...nodesIn(program)].flatMap((node) => at(text, node, refusedSyntax(node)));
  const changed = mutations(program).flatMap(({ node, name }) =>
    at(text, node, `${SHARED_STATE} ${name}`),
  );
  return [...free, ...syntax, ...changed];
}

/** How an impurity begins that is a module's own state, which sessions would share. */
export const SHARED_STATE = "a change of the module's own";

function at(text: string, node: Node, refused: string | undefined): readonly string[] {
  return refused === undefined ? [] : [`${lineAt(text, node.start)}: ${refused}`];
}

function refusedName({ name, node, parent }: Free): string | undefined {
  const use = Object.hasOwn(ALLOWED, name) ? ALLOWED[name] : undefined;
  if (use === undefined) return name;
  if (parent.type === "MemberExpression" && parent.object === node) {
    const member = parent.computed === true ? undefined : nameOf(nodeAt(parent, "property"));
    if (member === undefined) return `${name}[...]`;
    return use.members.includes(member) ? undefined : `${name}.${member}`;
  }
  return use.value || (use.make && isMade(node, parent)) ? undefined : `${name} as a value`;
}

function isMade(node: Node, parent: Node): boolean {
  switch (parent.type) {
    case "NewExpression":
    case "CallExpression":
      return parent.callee === node;
    case "BinaryExpression":
      return parent.operator === "instanceof" && parent.right === node;
    default:
      return false;
  }
}

function refusedSyntax(node: Node): string | undefined {
  if (node.async === true) return "an async function";
  switch (node.type) {
    case "AwaitExpression":
      return "await";
    case "ForOfStatement":
      return node.await === true ? "for await" : undefined;
    case "ImportDeclaration":
    case "ExportAllDeclaration":
    case "ImportExpression":
      return "an import";
    case "ExportNamedDeclaration":
      return nodeAt(node, "source") ? "an import" : undefined;
    case "MetaProperty":
      return nameOf(nodeAt(node, "meta")) === "import" ? "import.meta" : undefined;
    case "MemberExpression":
      return refusedProperty(node, "property");
    case "ObjectPattern":
      return (node.properties as readonly Node[])
        .map((property) => refusedProperty(property, "key"))
        .find((refused) => refused !== undefined);
    default:
      return undefined;
  }
}

function refusedProperty(node: Node, field: string): string | undefined {
  const key = nodeAt(node, field);
  const isVariable = node.computed === true && key?.type === "Identifier";
  const name = isVariable ? undefined : nameOf(key);
  return name !== undefined && REFUSED_PROPERTIES.includes(name) ? `.${name}` : undefined;
}
