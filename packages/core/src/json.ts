import type { Action, Message, ModelOp, Op, PlanItem, ToolSpec, TurnEvent } from "@dev/protocol";
import { never } from "@dev/protocol";
import type { Config } from "./config.ts";

/*
 * Parts of states and actions as JSON, as `JSON.stringify` would write them, which in an engine that
 * interprets is slow at listing fields and escaping texts. What a snapshot or an ask has again is
 * encoded once in its life, and what every step writes is written field by field.
 */

/** A part that is not a message; it never changes in place. */
export function jsonOf(
  part: Config | TurnEvent | readonly (ToolSpec | PlanItem | string)[],
): string {
  return encodings.get(part) ?? keep(part, JSON.stringify(part));
}

export function messageJson(message: Message): string {
  return encodings.get(message) ?? keep(message, encoded(message));
}

export function actionJson({ id, agent, turn, op }: Action): string {
  return `{"id":${id},"agent":${agent},"turn":${turn},"op":${opJson(op)}}`;
}

const encodings: WeakMap<object, string> = /* @__PURE__ */ new WeakMap<object, string>();

function keep(part: object, json: string): string {
  encodings.set(part, json);
  return json;
}

function encoded(message: Message): string {
  switch (message.kind) {
    case "user":
      return JSON.stringify(message);
    case "assistant": {
      const text = JSON.stringify(message.text);
      const reasoning = JSON.stringify(message.reasoning);
      const calls = JSON.stringify(message.calls);
      const opaque = JSON.stringify(message.opaque);
      return `{"kind":"assistant","text":${text},"reasoning":${reasoning},"calls":${calls},"opaque":${opaque}}`;
    }
    case "tool": {
      const ref = JSON.stringify(message.ref);
      const text = JSON.stringify(message.text);
      return `{"kind":"tool","ref":${ref},"text":${text},"failed":${message.failed}}`;
    }
    default:
      return never(message);
  }
}

function opJson(op: Op): string {
  switch (op.kind) {
    case "model":
      return askJson(op);
    case "emit":
      return `{"kind":"emit","text":${JSON.stringify(op.text)}}`;
    default:
      return JSON.stringify(op);
  }
}

function askJson({ purpose, model, effort, from, prelude, messages, tools }: ModelOp): string {
  return `{"kind":"model","purpose":"${purpose}","model":${JSON.stringify(model)},"effort":"${effort}","from":${from},"prelude":${JSON.stringify(prelude)},"messages":[${messages.map(messageJson).join(",")}],"tools":${jsonOf(tools)}}`;
}
