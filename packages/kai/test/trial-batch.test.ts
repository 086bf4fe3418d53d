import { test as base, describe, expect } from "vitest";
import { type Bench, bench } from "./trial-notation.ts";
import { KINDS } from "./trial-projects.ts";

const LIMIT_MS = 120_000;
const COLLECTED = "pytest forked after collecting";
const isHere = KINDS.some(({ name, isHere }) => name === COLLECTED && isHere);

/** So many that most of them are tried when it is known that they may share a fork. */
const COUNT = 48;

const test = (name: string, files: Record<string, string>, act: (at: Bench) => Promise<void>) =>
  base(name, { timeout: LIMIT_MS }, async (context) => {
    context.skip(!isHere, "pytest is not installed");
    const argv = ["python3", "-m", "pytest", "-q"];
    await using at = await bench({ files, argv });
    expect(at.trials.name).toBe(COLLECTED);
    expect(at.trials.depth).toBeGreaterThan(at.trials.slotCount);
    await act(at);
  });

/** Tries many at once, each of `texts` in turn in the place of `from`; says what became of each text. */
async function many(
  at: Bench,
  from: string,
  texts: readonly string[],
  deadlineMs?: number,
): Promise<readonly (readonly string[])[]> {
  const all = Array.from({ length: COUNT }, (_, index) => texts[index % texts.length] ?? "");
  const kinds = await Promise.all(all.map((text) => at.kind("half.py", from, text, deadlineMs)));
  return texts.map((text) => [
    ...new Set(kinds.flatMap((kind, index) => (all[index] === text ? [kind.split(" ")[0]] : []))),
  ]) as string[][];
}

const HALF = {
  "half.py": "SEEN = []\n\n\ndef half(n):\n    return n // 3\n",
  "test_half.py":
    "from half import half\n\n\ndef test_zero():\n    assert half(0) == 0\n\n\ndef test_half():\n    assert half(6) == 3\n",
};

describe("of candidates that share a process", () => {
  test("one that leaves something in a module hides nothing after it", HALF, async (at) => {
    const leaves = "SEEN.append(n) or n // 3";
    const right = "n // 2 if not SEEN else 0";
    expect(await many(at, "n // 3", [leaves, right, "n // 4"])).toEqual([
      ["failed"],
      ["passed"],
      ["failed"],
    ]);
  });

  test("one that keeps an attribute, a default or a closure hides nothing", {
    ...HALF,
    "half.py": `class Kept:
    count = 0

    def __init__(self):
        self.own = {}


KEPT = Kept()


def held():
    cell = []

    def inner():
        return cell
    return inner


HELD = held()


def half(n, known={}):
    return n // 3
`,
  }, async (at) => {
    const right = "n // 2 if not (Kept.count or KEPT.own or HELD() or known) else 0";
    const leaves = [
      "setattr(Kept, 'count', 1) or n // 3",
      "KEPT.own.update(a=1) or n // 3",
      "HELD().append(1) or n // 3",
      "known.update(a=1) or n // 3",
    ];
    const said = await many(
      at,
      "n // 3",
      leaves.flatMap((one) => [one, right]),
    );
    expect(said).toEqual(leaves.flatMap(() => [["failed"], ["passed"]]));
  });

  test("one that changes what a test is given hides nothing", {
    "half.py": "def half(given):\n    return [n // 3 for n in given]\n",
    "test_half.py": `import pytest
from half import half

GIVEN = [[2, 4], {"a": [6]}]


@pytest.mark.parametrize("given, wanted", [(GIVEN[0], [1, 2]), (GIVEN[1]["a"], [3])])
def test_half(given, wanted):
    assert half(given) == wanted
`,
  }, async (at) => {
    const texts = ["[given.clear()]", "[n // 2 for n in given]", "[given.append(7)]"];
    expect(await many(at, "[n // 3 for n in given]", texts)).toEqual([
      ["failed"],
      ["passed"],
      ["failed"],
    ]);
  });

  test("one that does harm that nobody sees has its batch done again", {
    "half.py": "def half(n):\n    import math\n    return math.floor(n / 3)\n",
    "test_half.py": "from half import half\n\n\ndef test_half():\n    assert half(6) == 3\n",
  }, async (at) => {
    const harm = "vars(math).update(floor=lambda n: 7) or 7";
    const texts = [harm, "math.floor(n / 2)", "math.floor(n / 4)"];
    expect(await many(at, "math.floor(n / 3)", texts)).toEqual([
      ["failed"],
      ["passed"],
      ["failed"],
    ]);
  });

  test("one that hangs costs its deadline, and no other's", HALF, async (at) => {
    const hangs = "[0 for _ in iter(int, 1)]";
    // The first is interrupted, the second does not let itself be, and the third is not in Python's hands.
    const deaf =
      "(lambda f: f(f))(lambda f: [exec('while 1:\\n try:\\n  while 1: pass\\n except BaseException: pass')])";
    const texts = [hangs, "n // 2", deaf, "n // 4", "sum(iter(int, 1))", "n // 5"];
    const said = await many(at, "n // 3", texts, 150);
    expect(said).toEqual([
      ["timeout"],
      ["passed"],
      ["timeout"],
      ["failed"],
      ["timeout"],
      ["failed"],
    ]);
  });

  test("one that passes there and not by itself does not pass", HALF, async (at) => {
    const there = "n // 2 if 'PYTEST_CURRENT_TEST' not in __import__('os').environ else 0";
    expect(await many(at, "n // 3", [there, "n // 2"])).toEqual([["failed"], ["passed"]]);
  });

  test("one that ends the process takes none along", HALF, async (at) => {
    const ends = [
      "__import__('os')._exit(0)",
      "__import__('os').kill(__import__('os').getpid(), 9)",
    ];
    const broken = "n //";
    const texts = [...ends, "n // 2", broken, "__import__('sys').exit(0)", "n // 4"];
    expect(await many(at, "n // 3", texts)).toEqual([
      ["failed"],
      ["failed"],
      ["passed"],
      ["broken"],
      ["failed"],
      ["failed"],
    ]);
  });

  test("each is what it would be alone, also in a file of many kinds of text", {
    "half.py": `"""Ünïcode before it."""
from __future__ import annotations


class Half:
    limit = 3

    @staticmethod
    def of(n: int) -> Half:
        return n // 3

    @property
    def twice(self): return self.limit * 2


def half(n): return Half.of(n)
`,
    "test_half.py": HALF["test_half.py"],
  }, async (at) => {
    const texts = [
      "n // 2",
      "n // 3 + 1",
      "n // 2\n\n    def more(self):\n        pass",
      "(n // 2",
    ];
    const said = await many(at, "n // 3", texts);
    expect(said).toEqual([["passed"], ["failed"], ["passed"], ["broken"]]);
  });
});
