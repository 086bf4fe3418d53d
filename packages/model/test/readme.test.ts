import { expect, test } from "vitest";
import { example } from "./example.ts";

test("the README's example does what it says", async () => {
  expect(await example()).toBe("Good morning.");
});
