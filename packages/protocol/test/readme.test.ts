import { expect, test } from "vitest";
import { example } from "./example.ts";

test("the example says what the README says", () => {
  expect(example()).toEqual([
    "action 7: git",
    "Event: turn is missing: a whole number from 0 below 2^53",
  ]);
});
