import {
  ACTION,
  type Action,
  CALL_OP,
  EVENT,
  type Event,
  FAULT_CODES,
  type FaultCode,
  familyOf,
  OP,
  type Op,
} from "@dev/protocol";
import type { AnyShape } from "../../packages/protocol/src/layout.ts";
import * as LIMITS from "../../packages/protocol/src/limit.ts";
import { GOLDENS, type Golden } from "../../packages/protocol/test/golden.ts";
import { nameOf, nodeAt, nodesAt, nodesIn } from "../syntax.ts";
import type { Tree } from "../tree.ts";
import { bytesOf } from "./bytes.ts";
import { MEANINGS } from "./meaning.ts";
import { code, figure, type Parts, table } from "./page.ts";
import { blocks, describe, describeVariants, json, shapesIn } from "./shape.ts";
import { declared, type Source, sourcesOf } from "./source.ts";

/** The generated parts of the protocol's page. */
export function protocolParts(tree: Tree): Parts {
  const sources = sourcesOf(tree, "protocol");
  const shapes = (...names: readonly string[]) =>
    blocks(names.map((name) => describe(shapeOf(name), sources)));
  return {
    ids: () => ids(sources),
    events: () =>
      blocks([
        describeVariants(EVENT, "Event", sources, exampleEvents),
        shapes("ModelAnswer", "Usage", "Image"),
      ]),
    action: () =>
      blocks([shapes("Action"), json(goldens("action").filter(({ op }) => op.kind === "git"))]),
    families: () => families(sources),
    ops: () =>
      blocks([
        describeVariants(OP, "Op", sources, exampleOps),
        shapes("ToolSpec", "Variable", "Change", "Edit"),
      ]),
    messages: () => shapes("Message"),
    calls: () =>
      blocks([
        shapes("Call"),
        describeVariants(CALL_OP, "Call", sources, exampleCalls, (kind) => !OP.byKind.has(kind)),
        shapes("PlanItem"),
      ]),
    outcomes: () => shapes("Outcome", "OpResult", "ExecEnd", "Match"),
    fault: () => shapes("Fault"),
    codes: () => codes(sources),
    limits: () => limits(sources),
    bytes: bytesOf,
  };
}

/** The names of all shapes that an event or an action may hold. */
export function shapeNames(): readonly string[] {
  return [...reachable().keys()];
}

function reachable(): ReadonlyMap<string, AnyShape> {
  const shapes = [...shapesIn(EVENT), ...shapesIn(ACTION)];
  return new Map(shapes.map((shape) => [shape.name, shape]));
}

function shapeOf(name: string): AnyShape {
  const shape = reachable().get(name);
  if (shape === undefined) throw new Error(`no event or action holds a ${name}`);
  return shape;
}

function ids(sources: readonly Source[]): string {
  const names = ["TurnId", "ActionId", "AgentId", "SessionId", "CellId", "Digest"];
  const rows = names.map((name) => {
    const { doc, node, source } = declared(sources, name);
    const body = nodeAt(node, "typeAnnotation") ?? node;
    const isNumber = source.text.slice(body.start, body.end).startsWith("number");
    return [code(name), isNumber ? "whole number, 0 or more, below 2^53" : "text", doc];
  });
  return table(["id", "JSON", "what it is"], rows);
}

function goldens<Kind extends Golden["kind"]>(
  kind: Kind,
): readonly Extract<Golden, { readonly kind: Kind }>["value"][] {
  return GOLDENS.filter((golden) => golden.kind === kind).map(({ value }) => value as never);
}

function exampleEvents(kind: string): readonly Event[] {
  return goldens("event")
    .filter((event) => event.kind === kind)
    .slice(0, 1);
}

function exampleOps(kind: string): readonly Op[] {
  return goldens("action")
    .map(({ op }) => op)
    .filter((op) => op.kind === kind)
    .slice(0, 1);
}

function exampleCalls(kind: string): readonly object[] {
  return goldens("event")
    .flatMap((event) =>
      event.kind === "model" && event.answer.kind === "reply" ? event.answer.calls : [],
    )
    .filter(({ op }) => op.kind === kind)
    .slice(0, 1);
}

/** Which event answers which op. */
function families(sources: readonly Source[]): string {
  const byFamily = new Map<string, string[]>();
  for (const { op } of goldens("action") as readonly Action[]) {
    const family = familyOf(op);
    const kinds = byFamily.get(family) ?? [];
    if (!kinds.includes(op.kind)) byFamily.set(family, [...kinds, op.kind]);
  }
  const rows = [...byFamily].map(([family, kinds]) => [
    kinds.map(code).join(", "),
    family === "none" ? "nothing: it is done when it is told" : code(family),
  ]);
  return blocks([
    `${declared(sources, "Family").doc} A result of another family than its op's changes nothing.`,
    table(["op", "answered by the event"], rows),
  ]);
}

/** The fault codes in wire order, in the groups that the source puts them into. */
function codes(sources: readonly Source[]): string {
  return blocks(
    [...codeGroups(sources)].map(([group, words]) => {
      const rows = words.map((word) => [
        code(word),
        String(FAULT_CODES.indexOf(word) + 1),
        MEANINGS[word],
      ]);
      return blocks([`**${group}**`, table(["code", "number", "what it says"], rows)]);
    }),
  );
}

/** The fault codes by the comment that stands in front of them. */
export function codeGroups(sources: readonly Source[]): ReadonlyMap<string, readonly FaultCode[]> {
  const { node, source } = declared(sources, "FAULT_CODES");
  const list = [...nodesIn(node)].find(({ type }) => type === "ArrayExpression");
  const groups = new Map<string, FaultCode[]>();
  let group = "";
  for (const element of list ? nodesAt(list, "elements") : []) {
    const comment = source.comments.findLast(({ end }) => end <= element.start);
    const isOwn = comment && source.text.slice(comment.end, element.start).trim() === "";
    if (isOwn) group = comment.value.trim();
    const word = FAULT_CODES.find((each) => each === nameOf(element));
    if (word) groups.set(group, [...(groups.get(group) ?? []), word]);
  }
  if ([...groups.values()].flat().length < FAULT_CODES.length) throw new Error("a code is missing");
  return groups;
}

function limits(sources: readonly Source[]): string {
  const rows = Object.entries(LIMITS)
    .map(([name, value]) => ({ ...declared(sources, name), value }))
    .sort((a, b) => a.node.start - b.node.start)
    .map(({ name, doc, value }) => [code(name), figure(name, value), doc]);
  return table(["limit", "figure", "of what"], rows);
}
