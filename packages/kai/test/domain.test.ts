import { expect, test } from "vitest";
import { atHome, kindOf } from "../src/domain.ts";

test("an input is at home where it has nothing in it that the tests have not", () => {
  const asked = ["[1, 2], 'a'", "[ 3, -4 ], ''"];
  const others = [
    "[5, 6, 7], 'xyz'",
    "[-9], 'a, b'",
    "[], 'a'",
    "[0], 'a'",
    "[1.5], 'a'",
    "[1], None",
    "[[1]], 'a'",
    "'a', [1]",
  ];
  expect(atHome([...asked, ...others], asked.length)).toEqual([
    ...[true, true],
    ...[true, true, false, false, false, false, false, false],
  ]);
});

test("a text that was cut off is read as far as it goes", () => {
  expect(atHome(["'ab'", "'a long tex", '"it\'s"'], 1)).toEqual([true, true, true]);
});

test.each([
  ["12", "number"],
  ["-0.5", "number"],
  ["'a'", "text"],
  ["True", "truth"],
  ["null", "nothing"],
  ["[1]", "["],
  ["Point{}", "Point"],
])("%s is of the kind %s", (shown, kind) => {
  expect(kindOf(shown)).toBe(kind);
});
