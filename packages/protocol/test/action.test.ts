import { expect, test } from "vitest";
import {
  type EffectEvent,
  effectFamily,
  type Family,
  familyOf,
  isEffect,
  type Op,
} from "../src/index.ts";
import { ACTIONS, EVENTS } from "./sample.ts";

const FAMILIES: { readonly [Kind in Op["kind"]]: Family } = {
  model: "model",
  read: "file",
  search: "file",
  write: "file",
  patch: "file",
  exec: "exec",
  git: "git",
  browse: "browse",
  tool: "tool",
  question: "reply",
  emit: "none",
  save: "none",
  done: "none",
};

test("every op has its family, and every family but none is a kind of event", () => {
  for (const [kind, family] of Object.entries(FAMILIES)) {
    const actions = ACTIONS.get(kind) ?? [];
    expect(actions.length).toBeGreaterThan(0);
    for (const { op } of actions) expect(familyOf(op)).toBe(family);
    if (family !== "none") expect(Object.keys(EVENTS)).toContain(family);
  }
});

test("an effect is an op whose family is an effect's event", () => {
  const effects: readonly EffectEvent["kind"][] = ["exec", "file", "git", "browse", "tool"];
  for (const { op } of [...ACTIONS.values()].flat()) {
    expect(isEffect(op)).toBe(effects.some((kind) => kind === familyOf(op)));
    if (isEffect(op)) expect(effectFamily(op)).toBe(familyOf(op));
  }
});

test("an op that is none is a bug, and throws", () => {
  expect(() => familyOf({ kind: "dance" } as unknown as Op)).toThrow(/unreachable/);
});
