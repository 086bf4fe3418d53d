import { type CallOp, OWN_SERVER, type ToolSpec } from "@dev/protocol";
import { EXEC, GIT } from "./tool/command.ts";
import { PATCH, READ, SEARCH, WRITE } from "./tool/file.ts";
import { FIX } from "./tool/fix.ts";
import { SCHEMAS } from "./tool/schemas.ts";
import { PLAN, QUESTION, SPAWN } from "./tool/session.ts";
import type { Tool, ToolName } from "./tool/tool.ts";

export type { ToolName } from "./tool/tool.ts";

/** A call as it goes over a wire. */
export type RenderedCall = { readonly name: string; readonly arguments: string };

/** The tools there are, in the order in which a model is told of them. */
export const TOOLS: readonly Tool[] = [
  READ,
  SEARCH,
  WRITE,
  PATCH,
  EXEC,
  GIT,
  FIX,
  QUESTION,
  PLAN,
  SPAWN,
];

/** The tools that a model is offered unless settings say otherwise. */
export const OFFERED_TOOLS: readonly ToolName[] = TOOLS.map((tool) => tool.name);

/** A kind of agent that `spawn` may name, and when to use it. */
export type SpawnKind = { readonly name: string; readonly description: string };

/**
 * What a model is told of these tools, `spawn` with the kinds of agent there are. The text is a constant of
 * each release, and a session keeps it, so that the prefix of a prompt stays the same. A name that is none
 * of `TOOLS` throws.
 */
export function toolSpecs(
  names: readonly ToolName[],
  kinds: readonly SpawnKind[] = [],
): readonly ToolSpec[] {
  return names.map((name) => {
    const tool = toolNamed(name);
    if (tool === undefined) throw new Error(`no tool named ${name}`);
    const described = name === "spawn" ? withKinds(tool.description, kinds) : tool.description;
    return { name, description: described, parameters: SCHEMAS[name] };
  });
}

function withKinds(description: string, kinds: readonly SpawnKind[]): string {
  if (kinds.length === 0) return `${description} There is no kind but the usual.`;
  const lines = kinds.map((kind) => `- ${kind.name}: ${kind.description}`);
  return [`${description} Besides the usual kind, which is as you are, there are:`, ...lines].join(
    "\n",
  );
}

/**
 * Reads a model's call: a tool's name and its arguments as JSON text. Total: what cannot be read is an
 * `invalid` op, whose reason names the field and what was expected there.
 */
export function parseCall(name: string, text: string): CallOp {
  const invalid = (reason: string): CallOp => ({ kind: "invalid", name, reason, arguments: text });
  const tool = toolNamed(name);
  if (tool === undefined) {
    const known = OFFERED_TOOLS.join(", ");
    return invalid(
      `there is no tool named ${JSON.stringify(name.slice(0, 64))}; there are ${known}`,
    );
  }
  const input = readObject(text);
  if (typeof input === "string") return invalid(input);
  const reading = tool.read(input);
  return reading.kind === "op" ? reading.op : invalid(reading.reason);
}

/**
 * Writes an op as the call that `parseCall` reads it from; the same op gives the same bytes. A call
 * that could not be read is written so that a provider takes it back: its name is made one that
 * providers accept, and arguments that are no JSON object are put into one.
 */
export function renderCall(op: CallOp): RenderedCall {
  switch (op.kind) {
    case "invalid":
      return { name: acceptableName(op.name), arguments: acceptableArguments(op.arguments) };
    case "tool":
      return {
        name: acceptableName(op.server === OWN_SERVER ? op.name : `${op.server}__${op.name}`),
        arguments: acceptableArguments(op.arguments),
      };
    case "browse": {
      const { kind: name, ...rest } = op;
      return { name, arguments: JSON.stringify(rest) };
    }
    default: {
      const input = toolNamed(op.kind)?.write(op);
      // Every other kind is a tool's name, which a test holds.
      if (!input) throw new Error(`no tool writes a call of kind ${op.kind}`);
      return { name: op.kind, arguments: JSON.stringify(input) };
    }
  }
}

function toolNamed(name: string): Tool | undefined {
  return TOOLS.find((tool) => tool.name === name);
}

/** The object that the text holds, or the reason why it holds none. */
function readObject(text: string): object | string {
  // An empty text is a call without arguments; the tool says which one it cannot do without.
  if (text.trim() === "") return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "arguments: expected a JSON object, got text that is not JSON (was it cut off?)";
  }
  if (typeof value === "string") {
    return "arguments: expected a JSON object, got a JSON string (was it encoded twice?)";
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    return "arguments: expected a JSON object, got another JSON value";
  }
  return value;
}

function acceptableName(name: string): string {
  return name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64) || "unnamed";
}

function acceptableArguments(text: string): string {
  if (text.trim() === "") return "{}";
  return typeof readObject(text) === "string" ? JSON.stringify({ unreadable: text }) : text;
}
