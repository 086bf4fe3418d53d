import { expect, test } from "vitest";
import { simpleCommands, unwrapped } from "../src/trial/words.ts";

test.each([
  ["a", [["a"]]],
  ["a && b c", [["a"], ["b", "c"]]],
  [`a 'b c' "d e"f`, [["a", "b c", "d ef"]]],
  [
    "javac -d out src/*.java && java -cp out Main",
    [
      ["javac", "-d", "out", "src/*.java"],
      ["java", "-cp", "out", "Main"],
    ],
  ],
  ["a b\\ c", [["a", "b c"]]],
] as const)("%s is the commands %j", (line, commands) => {
  expect(simpleCommands(line)).toEqual(commands);
});

test.each([
  "a; b",
  "a || b",
  "a | b",
  "a\nb",
  "a &",
  "a & b",
  "a &&",
  "&& a",
  "a && && b",
  "a;",
  "a > b",
  "a $B",
  'a "$B"',
  "a `b`",
  "(a)",
  "a ~/b",
  "a {b,c}",
  "! a",
  "a # b",
  'a "b',
  "",
])("%j is more than simple commands", (line) => {
  expect(simpleCommands(line)).toBeNull();
});

test.each([
  [
    ["sh", "-c", "pytest -x"],
    ["pytest", "-x"],
  ],
  [["sh", "-c", "timeout 5 pytest"], ["pytest"]],
  [
    ["bash", "-c", "a && b"],
    ["bash", "-c", "a && b"],
  ],
  [
    ["sh", "-c", "pytest test_*.py"],
    ["sh", "-c", "pytest test_*.py"],
  ],
  [
    ["sh", "-c", "A=1 pytest"],
    ["sh", "-c", "A=1 pytest"],
  ],
  [["timeout", "-k", "1", "5", "a"], ["a"]],
  [
    ["a", "b"],
    ["a", "b"],
  ],
])("%j starts as %j", (argv, started) => {
  expect(unwrapped(argv)).toEqual(started);
});
