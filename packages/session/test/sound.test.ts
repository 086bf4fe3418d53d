import { expect, test } from "vitest";
import { sound } from "../src/sound.ts";

test("half a surrogate pair becomes U+FFFD, however deep it stands", () => {
  const event = { kind: "model", answer: { calls: [{ op: { path: "a\ud800b" } }], text: "ok" } };
  expect(sound(event)).toEqual({
    kind: "model",
    answer: { calls: [{ op: { path: "a\ufffdb" } }], text: "ok" },
  });
});

test("what is sound already is not made anew", () => {
  const event = { kind: "model", answer: { calls: [], text: "😀", count: 3, none: null } };
  expect(sound(event)).toBe(event);
});
