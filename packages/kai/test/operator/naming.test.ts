import { expect, test } from "vitest";
import { contraries, similar, words } from "../../src/operator/naming.ts";

test("the words of a name are told apart by capitals, underscores and digits", () => {
  expect(words("maxDepth")).toEqual(["max", "Depth"]);
  expect(words("MAX_depth2")).toEqual(["MAX", "depth", "2"]);
  expect(words("_x")).toEqual(["x"]);
});

test("a contrary keeps the capitals and the other words of the name", () => {
  expect(contraries("max_depth")).toEqual(["min_depth"]);
  expect(contraries("getMaxDepth")).toContain("getMinDepth");
  expect(contraries("MAX_VALUE")).toContain("MIN_VALUE");
  expect(contraries("outgoing_edges")).toEqual(["incoming_edges"]);
  expect(contraries("maximal")).toEqual([]);
});

test.each([
  ["i", "j", true],
  ["start", "start_at", true],
  ["leftNode", "rightNode", true],
  ["num", "nums", true],
  ["price", "weight", false],
  ["x", "total", false],
])("%s and %s: %j", (a, b, expected) => {
  expect(similar(a, b)).toBe(expected);
});
