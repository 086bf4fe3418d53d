import { test as base, describe, expect } from "vitest";
import { Late, type LateOne, moreMs } from "../src/late.ts";
import type { Trial } from "../src/trial/trial.ts";
import { type Bench, bench } from "./trial-notation.ts";
import { KINDS } from "./trial-projects.ts";

const LIMIT_MS = 120_000;
const COLLECTED = "pytest forked after collecting";
const NEVER = new AbortController().signal;
const hasPytest = KINDS.some(({ name, isHere }) => name === COLLECTED && isHere);

type Given = { readonly files: Record<string, string>; readonly isTimeout?: boolean };

const pytest = (name: string, { files, isTimeout = false }: Given, act: (at: Bench) => unknown) =>
  base(name, { timeout: LIMIT_MS }, async (context) => {
    context.skip(!hasPytest, "pytest is not installed");
    const argv = ["python3", "-m", "pytest", "-q", "-x"];
    await using at = await bench({ files, argv, base: { isTimeout } });
    expect(at.trials.name).toBe(COLLECTED);
    await act(at);
  });

/** What became of `n // 3` with another text in its place, and of one that did not end, what it had. */
async function said(at: Bench, file: string, text: string, deadlineMs: number): Promise<string> {
  const trial = await at.trials.try(at.candidate(file, "n // 3", text), deadlineMs, NEVER);
  return trial.kind === "timeout" ? `timeout ${trial.had}` : trial.kind;
}

const ENDLESS = "sum(iter(int, 1))";
const SLOW = {
  "half.py": "def half(n):\n    return n // 3\n",
  "test_half.py": `import time
from half import half


def test_half():
    assert half(6) == 3


def test_slow():
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
    assert half(8) == 4
`,
};

describe("what passes the tests that are known to fail", () => {
  pytest("has more time than its deadline for those after them", { files: SLOW }, async (at) => {
    expect(await said(at, "half.py", "n // 2", 60)).toBe("passed");
    expect(await said(at, "half.py", "3", 60)).toBe("failed");
    expect(await said(at, "half.py", `3 if n == 6 else ${ENDLESS}`, 60)).toBe("timeout near");
  });

  base("has it in a worker of node's too", { timeout: LIMIT_MS }, async () => {
    const files = {
      "half.js": "exports.half = (n) => n / 3;\n",
      "half.test.js": `const assert = require("node:assert");
const test = require("node:test");
const { half } = require("./half.js");

test("half", () => assert.equal(half(6), 3));
test("slow", () => {
  const end = Date.now() + 700;
  while (half(8) === 4 && Date.now() < end);
  assert.ok(half(8) > 0);
});
`,
    };
    const argv = ["node", "--test", "half.test.js"];
    await using at = await bench({ files, argv });
    expect(at.trials.name).toBe("node in realms");
    const tried = async (text: string): Promise<Trial> =>
      at.trials.try(at.candidate("half.js", "n / 3", text), 500, NEVER);
    expect(await tried("n / 2")).toMatchObject({ kind: "passed" });
    expect(await tried("n === 6 ? 3 : (() => { for (;;); })()")).toMatchObject({ had: "near" });
    expect(await tried("(() => { for (;;); })()")).toMatchObject({ had: "whole" });
  });
});

describe("where a test does not end as it is", () => {
  const files = {
    "half.py": "def half(n):\n    while True:\n        n // 3\n    return n\n",
    "test_half.py":
      "from half import half\n\n\ndef test_zero():\n    assert True\n\n\ndef test_half():\n    assert half(6) == 3\n",
  };
  pytest(
    "candidates share a process still, and each is what it is",
    { files, isTimeout: true },
    async (at) => {
      const texts = ["n // 4", "return n // 2", "n // 5", "return n", "n // 6", "n //"];
      const all = Array.from({ length: 36 }, (_, at) => texts[at % texts.length] ?? "");
      const kinds = await Promise.all(all.map((text) => said(at, "half.py", text, 300)));
      const each = texts.map((text) => [...new Set(kinds.filter((_, at) => all[at] === text))]);
      expect(each).toEqual([
        ["timeout part"],
        ["passed"],
        ["timeout part"],
        ["failed"],
        ["timeout part"],
        ["broken"],
      ]);
    },
  );
});

pytest(
  "a change that leaves tests out does not pass",
  {
    files: {
      "cases.py": "def cases(n=7):\n    return [(6, 3)][: n // 3]\n",
      "test_half.py": `import pytest
from cases import cases


@pytest.mark.parametrize("given, wanted", cases())
def test_half(given, wanted):
    assert given // 3 == wanted
`,
    },
  },
  async (at) => {
    expect(await said(at, "cases.py", "0", 20_000)).toBe("failed");
  },
);

describe("of those that were late", () => {
  const one = (rank: number, had: LateOne["had"], isLast = false): LateOne => ({
    candidate: {
      edits: [],
      operator: "test",
      site: { file: "a", line: 1, function: null },
      weight: 1,
    },
    rank,
    had,
    isLast,
  });

  base("the one that passed a test that is known to fail comes first, and at once", () => {
    const late = new Late();
    for (const each of [one(0, "whole"), one(1, "part"), one(2, "near"), one(3, "near")])
      late.push(each);
    const soon = { elapsedMs: 0, isHalfway: false };
    expect(late.next(soon)?.rank).toBe(2);
    late.spent(1_000);
    expect(late.next(soon)).toBeUndefined();
    expect(late.next({ elapsedMs: 4_000, isHalfway: false })?.rank).toBe(3);
    expect(late.next({ elapsedMs: 8_000, isHalfway: false })?.rank).toBe(1);
    expect(late.next({ elapsedMs: 8_000, isHalfway: false })).toBeUndefined();
    expect(late.next({ elapsedMs: 8_000, isHalfway: true })?.rank).toBe(0);
  });

  base("none is tried for ever, and the rest are in order", () => {
    const late = new Late();
    for (const each of [one(0, "whole"), one(1, "near", true), one(2, "part"), one(3, "near")])
      late.push(each);
    expect(late.rest().map(({ rank }) => rank)).toEqual([3, 2, 0]);
    expect(late.rest()).toEqual([]);
    expect(moreMs("part", 100)).toBe(100);
    expect(moreMs("whole", 100)).toBeGreaterThan(100);
    expect(moreMs("near", 100)).toBeGreaterThan(moreMs("whole", 100));
  });
});
