import { appendFileSync } from "node:fs";
import type { FixedStep, ScriptedRequest } from "@dev/model/scripted";
import { expect } from "vitest";
import type { Desk } from "./dev.ts";

/** A call as a model makes it. */
export type Called = readonly [tool: string, given: unknown];

/** A step in which the model says this, and calls these. */
export function say(text: string, ...calls: readonly Called[]): FixedStep {
  return { reply: { text, calls: calls.map(([tool, given]) => ({ tool, arguments: given })) } };
}

/** The same, in the conversation that begins with this text. */
export function to(when: string, text: string, ...calls: readonly Called[]): FixedStep {
  return { ...say(text, ...calls), when };
}

export function spawn(prompt: string, agent = ""): Called {
  return ["spawn", { prompt, ...(agent !== "" && { agent }) }];
}

export function run(command: string): Called {
  return ["exec", { command }];
}

/** Says what is to be known of the model: figures as the settings name them. */
export function describeModel(desk: Desk, figures: Readonly<Record<string, number>>): void {
  const lines = Object.entries(figures).map(([name, value]) => `${name} = ${value}\n`);
  appendFileSync(`${desk.home}/config.toml`, `[models."scripted/test"]\n${lines.join("")}`);
}

/** What the model was told of each call, as of the last request of that conversation. */
export function toldIn(desk: Pick<Desk, "model">, when: string): readonly string[] {
  const last = desk.model.requests.findLast((request) => firstOf(request).includes(when));
  const messages = last?.messages ?? [];
  return messages.filter(({ role }) => role === "tool").map(({ content }) => content);
}

/**
 * Checks that within each conversation a request goes on from the one before, to the byte: all but the
 * brackets that close one is the beginning of the next. What compacts goes on from a part of it, and a
 * conversation with a summary is another one.
 */
export function checkPrefixes(requests: readonly ScriptedRequest[]): void {
  const before = new Map<string, string>();
  for (const request of requests) {
    const key = firstOf(request);
    const last = before.get(key);
    if (isCompaction(request)) {
      const kept = request.body.slice(0, request.body.lastIndexOf(',{"role":"user"'));
      const [short = "", long = ""] = [kept, open(last ?? "")].toSorted(byLength);
      expect(long.startsWith(short), `request ${request.count} compacts what was said`).toBe(true);
      continue;
    }
    if (last !== undefined) {
      const goesOn = request.body.startsWith(open(last));
      expect(goesOn, `request ${request.count} goes on from the one before`).toBe(true);
    }
    before.set(key, request.body);
  }
}

export function isCompaction({ messages }: ScriptedRequest): boolean {
  return messages.at(-1)?.content.startsWith("Summarise this conversation.") === true;
}

function firstOf({ messages }: ScriptedRequest): string {
  return messages.find(({ role }) => role === "user")?.content ?? "";
}

/** A body without what closes it. */
function open(body: string): string {
  expect(body.slice(-2)).toBe("]}");
  return body.slice(0, -2);
}

function byLength(a: string, b: string): number {
  return a.length - b.length;
}
