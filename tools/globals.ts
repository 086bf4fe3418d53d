import { childrenOf, type Node, nameOf, nodeAt, nodesAt } from "./syntax.ts";

/** A name that a module uses and does not declare, and the node around it. */
export type Free = { readonly name: string; readonly node: Node; readonly parent: Node };

/** The names that are used in a module and declared by none of its functions or blocks. */
export function moduleNames(program: Node): readonly Free[] {
  return childrenOf(program).flatMap((child) => visit(child, program, undefined));
}

type Scope = { readonly names: ReadonlySet<string>; readonly outer: Scope | undefined };

/** The free names of an ES module in plain JavaScript, by the scoping rules of strict mode. */
export function freeNames(program: Node): readonly Free[] {
  return visit(program, program, undefined);
}

function visit(node: Node, parent: Node, outer: Scope | undefined): readonly Free[] {
  if (node.type === "Identifier") {
    const name = String(node.name);
    return isReference(node, parent) && !isDeclared(name, outer) ? [{ name, node, parent }] : [];
  }
  const names = declaredBy(node, parent);
  const scope = names.length === 0 ? outer : { names: new Set(names), outer };
  return childrenOf(node).flatMap((child) => visit(child, node, scope));
}

function isDeclared(name: string, scope: Scope | undefined): boolean {
  for (let each = scope; each !== undefined; each = each.outer) {
    if (each.names.has(name)) return true;
  }
  return false;
}

/** Whether an identifier stands for a variable, and not for a property, a label or an export. */
function isReference(node: Node, parent: Node): boolean {
  switch (parent.type) {
    case "MemberExpression":
      return parent.object === node || parent.computed === true;
    case "Property":
    case "MethodDefinition":
    case "PropertyDefinition":
    case "AccessorProperty":
      return parent.value === node || parent.computed === true;
    case "LabeledStatement":
    case "BreakStatement":
    case "ContinueStatement":
    case "MetaProperty":
    case "ImportSpecifier":
    case "ExportAllDeclaration":
      return false;
    case "ExportSpecifier":
      return parent.local === node;
    default:
      return true;
  }
}

/** The names that are declared for everything inside `node`. */
function declaredBy(node: Node, parent: Node): readonly string[] {
  switch (node.type) {
    case "Program":
      return [...lexicalIn(nodesAt(node, "body")), ...varsIn(node)];
    case "BlockStatement":
    case "StaticBlock":
      return [
        ...lexicalIn(nodesAt(node, "body")),
        // A function's own `var`s are not seen by its parameters.
        ...(isFunction(parent) || node.type === "StaticBlock" ? varsIn(node) : []),
      ];
    case "SwitchStatement":
      return lexicalIn(nodesAt(node, "cases").flatMap((each) => nodesAt(each, "consequent")));
    case "ForStatement":
      return lexicalIn([nodeAt(node, "init")]);
    case "ForInStatement":
    case "ForOfStatement":
      return lexicalIn([nodeAt(node, "left")]);
    case "CatchClause":
      return namesIn(nodeAt(node, "param"));
    case "ClassDeclaration":
    case "ClassExpression":
      return namesIn(nodeAt(node, "id"));
    case "FunctionDeclaration":
    case "FunctionExpression":
      return ["arguments", ...namesIn(nodeAt(node, "id")), ...paramsOf(node)];
    case "ArrowFunctionExpression":
      return paramsOf(node);
    default:
      return [];
  }
}

function paramsOf(node: Node): readonly string[] {
  return nodesAt(node, "params").flatMap(namesIn);
}

/** `let`, `const`, classes, functions and imports that stand directly among these statements. */
function lexicalIn(statements: readonly (Node | undefined)[]): readonly string[] {
  return statements.flatMap((statement) => {
    switch (statement?.type) {
      case "VariableDeclaration":
        return statement.kind === "var" ? [] : declarators(statement);
      case "FunctionDeclaration":
      case "ClassDeclaration":
        return namesIn(nodeAt(statement, "id"));
      case "ExportNamedDeclaration":
      case "ExportDefaultDeclaration":
        return lexicalIn([nodeAt(statement, "declaration")]);
      case "ImportDeclaration":
        return nodesAt(statement, "specifiers").flatMap((each) => namesIn(nodeAt(each, "local")));
      default:
        return [];
    }
  });
}

/** Every `var` below, but not those of functions inside. */
function varsIn(node: Node): readonly string[] {
  if (node.type === "VariableDeclaration" && node.kind === "var") return declarators(node);
  return childrenOf(node)
    .filter((child) => !isFunction(child) && child.type !== "StaticBlock")
    .flatMap(varsIn);
}

function declarators(declaration: Node): readonly string[] {
  return nodesAt(declaration, "declarations").flatMap((each) => namesIn(nodeAt(each, "id")));
}

/** The names that a pattern binds. */
function namesIn(pattern: Node | undefined): readonly string[] {
  switch (pattern?.type) {
    case "Identifier":
      return [nameOf(pattern) ?? ""];
    case "ObjectPattern":
      return nodesAt(pattern, "properties").flatMap((each) =>
        namesIn(each.type === "RestElement" ? each : nodeAt(each, "value")),
      );
    case "ArrayPattern":
      return nodesAt(pattern, "elements").flatMap(namesIn);
    case "AssignmentPattern":
      return namesIn(nodeAt(pattern, "left"));
    case "RestElement":
      return namesIn(nodeAt(pattern, "argument"));
    default:
      return [];
  }
}

function isFunction(node: Node): boolean {
  return /^(Function(Declaration|Expression)|ArrowFunctionExpression)$/.test(node.type);
}
