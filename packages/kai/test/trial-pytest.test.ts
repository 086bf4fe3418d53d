import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test as base, describe, expect, vi } from "vitest";
import {
  type Bench,
  bench,
  DEADLINE_MS,
  fingerprint,
  type Project,
  processesIn,
} from "./trial-notation.ts";
import { KINDS } from "./trial-projects.ts";

const LIMIT_MS = 120_000;
const COLLECTED = "pytest forked after collecting";
const FORKED = "pytest forked";
const isHere = KINDS.some(({ name, isHere }) => name === COLLECTED && isHere);

/** A project of Python's: its files, and how pytest is started. */
function project(files: Record<string, string>, more: readonly string[] = []): Project {
  return { files, argv: ["python3", "-m", "pytest", "-q", ...more] };
}

const test = (name: string, files: Record<string, string>, act: (at: Bench) => Promise<void>) =>
  base(name, { timeout: LIMIT_MS }, async (context) => {
    context.skip(!isHere, "pytest is not installed");
    await using at = await bench(project(files));
    const before = fingerprint(at.workspace);
    await act(at);
    expect(fingerprint(at.workspace)).toBe(before);
    expect(processesIn(at.scratch).length).toBeLessThan(3);
  });

const HALF = {
  "half.py": "def half(n):\n    return n // 3\n",
  "test_half.py":
    "from half import half\n\n\ndef test_zero():\n    assert half(0) == 0\n\n\ndef test_half():\n    assert half(6) == 3\n",
};

describe("code that is put into a process that has collected", () => {
  test("reaches a class with slots, its methods, properties and class methods", {
    "point.py": `class Point:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x

    @classmethod
    def of(cls, x):
        return cls(x)

    @property
    def twice(self):
        return self.x + 3

    @staticmethod
    def zero():
        return Point(0)
`,
    "test_point.py":
      "from point import Point\nP = Point\n\n\ndef test_point():\n    assert P.of(2).twice == 4\n",
  }, async (at) => {
    expect(at.trials.name).toBe(COLLECTED);
    expect(await at.kind("point.py", "self.x + 3", "self.x + 2")).toBe("passed");
    expect(await at.kind("point.py", "self.x + 3", "self.x + 4")).toContain("failed");
    expect(await at.kind("point.py", "return cls(x)", "return cls(x - 1)")).toBe("passed");
    // A slot more is no function, and needs the class anew.
    expect(await at.kind("point.py", '("x",)', '("y",)')).toContain("failed");
  });

  test("reaches functions that are wrapped, nested, generated and kept by others", {
    "deep.py": `import functools


def traced(act):
    @functools.wraps(act)
    def outer(*given):
        return act(*given) + 0
    return outer


@functools.lru_cache(maxsize=None)
def cached(n):
    return n + 2


@traced
def wrapped(n):
    def inner(m):
        return m + 2
    return inner(n)


def numbers(n):
    yield n + 2


TABLE = {"key": lambda n: n + 3}
`,
    "test_deep.py": `from deep import TABLE, cached, numbers, wrapped


def test_all():
    assert (cached(1), wrapped(1), list(numbers(1)), TABLE["key"](1)) == (3, 3, [3], 3)
`,
  }, async (at) => {
    expect(at.trials.name).toBe(COLLECTED);
    expect(await at.kind("deep.py", "n + 3", "n + 2")).toBe("passed");
    expect(await at.kind("deep.py", "m + 2", "m + 1")).toContain("failed");
    expect(await at.kind("deep.py", "(*given) + 0", "(*given) + 1")).toContain("failed");
  });

  test("is loaded anew where it ran at load, or is no function's", {
    "table.py": `LIMIT = 3


def entry(n, step=2):
    return n * step


TABLE = [entry(n) for n in range(LIMIT)]
`,
    "test_table.py": `import pytest
from table import TABLE, entry


@pytest.mark.parametrize("n", range(4))
def test_table(n):
    assert TABLE[n] == n * 2


def test_entry():
    assert entry(5) == 10
`,
  }, async (at) => {
    expect(at.trials.name).toBe(COLLECTED);
    expect(await at.kind("table.py", "LIMIT = 3", "LIMIT = 4")).toBe("passed");
    expect(await at.kind("table.py", "range(LIMIT)", "range(LIMIT + 1)")).toBe("passed");
    expect(await at.kind("table.py", "n * step", "step * n + 0")).toContain("test_table[3]");
    expect(await at.kind("table.py", "step=2", "step=3")).toContain("failed");
    expect(await at.kind("table.py", "LIMIT = 3", "LIMIT = nobody")).toBe("broken");
  });

  test("keeps the order of a suite whose tests need each other", {
    "steps.py": "def step(done, n):\n    return n > 1\n",
    "test_steps.py": `import time
from steps import step

done = []


def test_slow():
    time.sleep(0.05)


def test_first():
    done.append(1)


def test_second():
    assert done == [1], "the first has not run"
    done.append(2)
    assert step(done, 1)


def test_third():
    assert done == [1, 2]
`,
  }, async (at) => {
    expect(await at.kind("steps.py", "n > 1", "n >= 1")).toBe("passed");
    expect(await at.kind("steps.py", "n > 1", "n > 2")).toContain("test_second");
  });

  test("runs the failing tests first where the order does not matter", {
    "slow.py": "def one():\n    return 2\n\n\ndef two():\n    return 2\n",
    "test_slow.py": `import time
from slow import one, two


def test_two():
    time.sleep(0.05)
    assert two() == 2


def test_one():
    assert one() == 1
`,
  }, async (at) => {
    // Both fail, and the one that failed before is what is looked at first.
    expect(
      await at.kind(
        "slow.py",
        "2\n\n\ndef two():\n    return 2",
        "3\n\n\ndef two():\n    return 3",
      ),
    ).toBe("failed test_slow.py::test_one");
    expect(await at.kind("slow.py", "2\n\n\ndef", "1\n\n\ndef")).toBe("passed");
    expect(
      await at.kind(
        "slow.py",
        "2\n\n\ndef two():\n    return 2",
        "1\n\n\ndef two():\n    return 3",
      ),
    ).toBe("failed test_slow.py::test_two");
  });
});

describe("a candidate that does harm", () => {
  const harms: readonly (readonly [string, string])[] = [
    [
      "overwrites what others share",
      "__import__('builtins').__dict__.update(len=None, sorted=None)",
    ],
    ["exits at once", "__import__('os')._exit(0)"],
    ["raises SystemExit", "__import__('sys').exit(0)"],
    ["closes every descriptor", "__import__('os').closerange(0, 512)"],
    ["removes the tree", "__import__('shutil').rmtree('.')"],
    ["goes to the limit of recursion", "(lambda f: f(f))(lambda f: f(f))"],
    ["takes memory without bound", "[bytearray(1 << 26) for _ in iter(int, 1)]"],
    ["kills its group", "__import__('os').killpg(0, 9)"],
  ];
  for (const [what, code] of harms) {
    test(`that ${what} fails, and the next is as before`, HALF, async (at) => {
      expect(await at.kind("half.py", "n // 3", `${code} or n // 3`)).toContain("failed");
      expect(await at.kind("half.py", "n // 3", "n // 2")).toBe("passed");
      expect(await at.kind("half.py", "n // 3", "n // 4")).toContain("test_half");
    });
  }

  test("by writing into the tree leaves nothing for the next", HALF, async (at) => {
    const write = "open('half_data', 'a').write('x') and n // 2";
    expect(await at.kind("half.py", "n // 3", write)).toBe("passed");
    const look = "n // 2 if not __import__('os').path.exists('half_data') else 0";
    expect(await at.kind("half.py", "n // 3", look)).toBe("passed");
    const change = "open('test_half.py', 'w').write('') or n // 2";
    expect(await at.kind("half.py", "n // 3", change)).toBe("passed");
    const size = "n // 2 if __import__('os').path.getsize('test_half.py') else 0";
    expect(await at.kind("half.py", "n // 3", size)).toBe("passed");
  });

  test("by printing without end is stopped at its deadline", HALF, async (at) => {
    const print = "[print('x' * 100000) for _ in iter(int, 1)]";
    expect(await at.kind("half.py", "n // 3", print, 5_000)).toMatch(/failed|timeout/);
    expect(await at.kind("half.py", "n // 3", "n // 2")).toBe("passed");
  });

  test("by leaving processes behind takes them along", HALF, async (at) => {
    const daemon =
      "(lambda os, time: (os.fork() == 0 and (os.setsid(), os.fork() == 0 and time.sleep(600), os._exit(0))) or n // 2)(__import__('os'), __import__('time'))";
    expect(await at.kind("half.py", "n // 3", daemon)).toBe("passed");
    expect(await at.kind("half.py", "n // 3", daemon)).toBe("passed");
    // The worker alone is left of them, once it has no fork of its own any more.
    const count = existsSync("/proc/self") ? 1 : 0;
    await vi.waitFor(() => expect(processesIn(at.scratch).length).toBe(count), DEADLINE_MS);
  });
});

describe("what a worker cannot be sure of", () => {
  test("such as tests that start the program is left to the command", {
    ...HALF,
    "test_half.py": `import subprocess
import sys


def test_half():
    code = "from half import half; assert half(6) == 3"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
`,
  }, async (at) => {
    expect(at.trials.name).toBe("cold");
    expect(await at.kind("half.py", "n // 3", "n // 2")).toBe("passed");
    expect(await at.kind("half.py", "n // 3", "n // 4")).toContain("failed");
  });

  test("such as a base that other tests fail on is left to the command", HALF, async (at) => {
    const other = { failingTests: ["test_half.py::test_zero"], testCount: 2 };
    await using odd = await bench({ ...project(HALF), base: other });
    expect([at.trials.name, odd.trials.name]).toEqual([COLLECTED, "cold"]);
    expect(await odd.kind("half.py", "n // 3", "n // 2")).toBe("passed");
  });

  test("such as code that another rewrote when it was loaded is loaded anew", {
    ...HALF,
    "conftest.py":
      "import half\n\nhalf.half.__code__ = half.half.__code__.replace(co_name='other')\n",
  }, async (at) => {
    expect(at.trials.name).toBe(FORKED);
    expect(await at.kind("half.py", "n // 3", "n // 2")).toBe("passed");
  });
});

test("a tree whose tests write files is tried in a copy for each", {
  "half.py": HALF["half.py"],
  "test_half.py": `import os
from half import half


def test_half():
    assert not os.path.exists("out.txt")
    with open("out.txt", "w") as stream:
        stream.write(str(half(6)))
    with open("out.txt") as stream:
        assert stream.read() == "3"
`,
}, async (at) => {
  const kinds = [2, 3, 2, 4, 2, 2].map((by) => at.kind("half.py", "n // 3", `n // ${by}`));
  const said = (await Promise.all(kinds)).map((kind) => kind.split(" ")[0]);
  expect(said).toEqual(["passed", "failed", "passed", "failed", "passed", "passed"]);
  expect(readdirSync(at.workspace).sort()).toEqual(["half.py", "test_half.py"]);
  expect(existsSync(join(at.workspace, "out.txt"))).toBe(false);
});
