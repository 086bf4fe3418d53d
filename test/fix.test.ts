import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openDesk, read } from "./support/dev.ts";
import {
  FAULTY,
  fixing,
  has,
  leftBy,
  NODE_TEST,
  onDesk,
  type Project,
  snapshot,
} from "./support/fix.ts";

const LIMIT_MS = 180_000;

const PYTEST: Project = {
  files: {
    "stack.py": `def height(items):
    count = 0
    for item in items:
        count -= 1
    return count
`,
    "test_stack.py": `from stack import height


def test_nothing():
    assert height([]) == 0


def test_some():
    assert height([4, 5]) == 2
    assert height([4, 5, 6, 7]) == 4
`,
  },
  argv: ["python3", "-m", "pytest", "-q"],
};

const JAVA: Project = {
  files: {
    "Sum.java": `class Sum {
  static int upTo(int limit) {
    int sum = 0;
    for (int i = 1; i < limit; i++) sum += i;
    return sum;
  }
}
`,
    "Main.java": `class Main {
  public static void main(String[] args) {
    check(1, 1);
    check(4, 10);
    check(9, 45);
  }
  static void check(int limit, int want) {
    int got = Sum.upTo(limit);
    if (got != want) throw new AssertionError(limit + ": " + got + ", not " + want);
  }
}
`,
  },
  argv: ["sh", "-c", "rm -rf out && javac -d out Sum.java Main.java && java -cp out Main"],
};

type Kind = {
  readonly project: Project;
  readonly file: string;
  readonly right: RegExp;
  /** What has to answer for the test to be run. */
  readonly needs: readonly [string, ...string[]];
};

const KINDS: Readonly<Record<string, Kind>> = {
  pytest: {
    project: PYTEST,
    file: "stack.py",
    right: /count (\+= 1|-= -1)/,
    needs: ["python3", "-m", "pytest", "--version"],
  },
  "node:test": {
    project: FAULTY,
    file: "clamp.js",
    right: /value >=? high/,
    needs: ["node", "--version"],
  },
  "plain Java": {
    project: JAVA,
    file: "Sum.java",
    right: /i <= limit|i < limit \+ 1/,
    needs: ["javac", "-version"],
  },
};

test.for(Object.entries(KINDS))(
  "a fault that %s finds is fixed, and the command confirms it",
  { timeout: LIMIT_MS },
  async ([name, { project, file, right, needs }], { skip }) => {
    skip(!has(needs), `${name} is not on this machine`);
    await onDesk(project, async (desk) => {
      const before = snapshot(desk.project);
      const ran = await desk.run(fixing(project, "--json"));
      expect(ran.stderr, name).toBe("");
      expect(ran.lines.at(-1)).toMatchObject({
        type: "fix.completed",
        outcome: "verified",
        exit: 0,
      });
      expect(ran.code).toBe(0);
      expect(read(join(desk.project, file))).toMatch(right);
      const [program = "", ...rest] = project.argv;
      expect(spawnSync(program, rest, { cwd: desk.project }).status).toBe(0);
      const others = [...before.keys()].filter((path) => path !== file);
      for (const path of others) expect(snapshot(desk.project).get(path)).toBe(before.get(path));
      expect(leftBy(desk)).toEqual([]);
    });
  },
);

test(
  "a person is shown the diff, what the verifier saw, and what it cost",
  () =>
    onDesk(FAULTY, async (desk) => {
      const ran = await desk.run(fixing(FAULTY));
      expect(ran.code).toBe(0);
      expect(ran.stdout).toContain("--- a/clamp.js\n+++ b/clamp.js\n");
      expect(ran.stdout).toMatch(/^\+ {2}if \(value >=? high\) return high;$/m);
      expect(ran.stderr).toMatch(/verified: node --test: exit code 0, 3 passed, 0 failed/);
      expect(ran.stderr).toMatch(/before: exit code 1, 1 passed, 2 failed/);
      expect(ran.stderr).toMatch(/no model; fix_[0-9a-f]+\n$/);
    }),
  LIMIT_MS,
);

test(
  "changes that pass and do different things are listed, and the tree stays as it was",
  () => {
    const project = {
      files: {
        "pick.js": "exports.pick = (a, b) => a - b;\n",
        "pick.test.js": NODE_TEST("pick", "assert.equal(pick(2, 2), 4);"),
      },
      argv: ["node", "--test"],
    };
    return onDesk(project, async (desk) => {
      const before = snapshot(desk.project);
      const ran = await desk.run(fixing(project, "--json"));
      expect(ran.code).toBe(5);
      const end = ran.lines.at(-1);
      expect(end).toMatchObject({ type: "fix.failed", outcome: "ambiguous", exit: 5 });
      const diffs = end.candidates.map(({ diff }: { diff: string }) => diff).join("");
      expect(diffs).toContain("a + b");
      expect(diffs).toContain("a * b");
      expect(snapshot(desk.project)).toEqual(before);
      expect(leftBy(desk)).toEqual([]);
    });
  },
  LIMIT_MS,
);

const HOPELESS: Project = {
  files: {
    "secret.js": "exports.secret = () => 0;\n",
    "secret.test.js": NODE_TEST("secret", 'assert.equal(secret(), "no change makes this");'),
  },
  argv: ["node", "--test"],
};

test.each([
  ["without git", false],
  ["with git, and changes that are not committed", true],
])(
  "what cannot be fixed leaves the tree byte for byte, %s",
  (_, isRepository) =>
    onDesk(HOPELESS, async (desk) => {
      if (isRepository) {
        commit(desk.project);
        writeFileSync(join(desk.project, "mine.txt"), "not committed\n");
      }
      const before = snapshot(desk.project);
      const ran = await desk.run(fixing(HOPELESS, "--json", "--timeout", "20"));
      expect(ran.lines.at(-1)).toMatchObject({ outcome: "not_fixed", exit: 1 });
      expect(ran.code).toBe(1);
      expect(snapshot(desk.project)).toEqual(before);
      expect(leftBy(desk)).toEqual([]);
    }),
  LIMIT_MS,
);

test(
  "in a repository with changes of the person's, and in a directory of it, only the fix is written",
  () => {
    const files = Object.fromEntries(
      Object.entries(FAULTY.files).map(([path, text]) => [`packages/one/${path}`, text]),
    );
    // The package reads what lies beside it, as packages of one repository do.
    files["packages/one/clamp.js"] = `require("../base/base.js");\n${FAULTY.files["clamp.js"]}`;
    files["packages/base/base.js"] = "exports.base = 1;\n";
    const project = { ...FAULTY, files };
    return onDesk(project, async (desk) => {
      commit(desk.project);
      const own = join(desk.project, "packages/one");
      writeFileSync(join(own, "note.txt"), "mine, not committed\n");
      const ran = await desk.run(fixing(project, "--json", "-C", "packages/one"));
      expect(ran.lines.at(-1)).toMatchObject({ outcome: "verified" });
      expect(read(join(own, "clamp.js"))).toMatch(/value >=? high/);
      const { stdout } = spawnSync("git", ["status", "--porcelain"], { cwd: desk.project });
      expect(stdout.toString().trim().split("\n")).toEqual([
        "M packages/one/clamp.js",
        "?? packages/one/note.txt",
      ]);
    });
  },
  LIMIT_MS,
);

test(
  "a command that passes, one that is not there, and one that is none, are told apart",
  () =>
    onDesk(FAULTY, async (desk) => {
      const before = snapshot(desk.project);
      const codes = new Map<string, readonly string[]>([
        ["4", ["node", "-e", "0"]],
        ["3", ["no-such-program", "--test"]],
        ["3 of a shell", ["sh", "-c", "no-such-program --test"]],
      ]);
      for (const [code, argv] of codes) {
        const ran = await desk.run(["fix", "--no-model", "--json", "--", ...argv]);
        expect(ran.code, argv.join(" ")).toBe(Number.parseInt(code, 10));
      }
      const ran = await desk.run(["fix", "--no-model", "node", "--test"]);
      expect(ran).toMatchObject({ code: 2, stdout: "" });
      expect(ran.stderr).toContain("-- COMMAND…");
      expect(snapshot(desk.project)).toEqual(before);
    }),
  LIMIT_MS,
);

test(
  "a test that fails, and passes with nothing changed, is said to be flaky",
  () => {
    const flaky: Project = {
      files: {
        "clamp.js": FAULTY.files["clamp.js"] ?? "",
        // It fails the first time that it is asked, wherever that is.
        "flaky.sh": `if [ -e "$MARK" ]; then exit 0; fi\n: > "$MARK"\nexit 1\n`,
      },
      argv: ["sh", "flaky.sh"],
    };
    return onDesk(flaky, async (desk) => {
      const config = join(desk.home, "config.toml");
      // Only where nothing is confined can a command leave a mark that its next run finds.
      writeFileSync(config, `${read(config)}\n[local]\nconfine = false\n`);
      const before = snapshot(desk.project);
      const ran = await desk.run(fixing(flaky, "--json"), {
        env: { MARK: join(desk.root, "mark") },
      });
      expect(ran.code).toBe(1);
      expect(ran.lines.at(-1).reason).toContain("flaky");
      expect(snapshot(desk.project)).toEqual(before);
    });
  },
  LIMIT_MS,
);

test(
  "a fault that never ends is found by what it hangs in",
  () => {
    const hanging: Project = {
      files: {
        "half.js": `exports.half = (n) => {
  let count = 0;
  while (n > 0) {
    n += 2;
    count += 1;
  }
  return count;
};
`,
        "half.test.js": NODE_TEST(
          "half",
          "assert.equal(half(0), 0);",
          "assert.equal(half(6), 3);",
          "assert.equal(half(10), 5);",
          "assert.equal(half(11), 6);",
        ),
      },
      argv: ["node", "--test"],
    };
    return onDesk(hanging, async (desk) => {
      const ran = await desk.run(fixing(hanging, "--json"));
      expect(ran.lines.at(-1)).toMatchObject({ outcome: "verified" });
      expect(read(join(desk.project, "half.js"))).toContain("n -= 2");
    });
  },
  LIMIT_MS,
);

test(
  "the ledger tells the run again, with no secret of the environment in it",
  () =>
    onDesk(FAULTY, async (desk) => {
      const env = { SERVICE_TOKEN: "s3cr3t-value-of-mine" };
      const project = { ...FAULTY, argv: ["sh", "-c", `: ${env.SERVICE_TOKEN}; node --test`] };
      const ran = await desk.run(fixing(project, "--json"), { env });
      const text = readFileSync(join(desk.home, "kai/ledger.jsonl"), "utf8");
      expect(text).not.toContain(env.SERVICE_TOKEN);
      expect(text).toContain("[SERVICE_TOKEN]");
      const lines = text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line));
      expect(lines.at(0)).toMatchObject({ version: 1, kind: "begun" });
      expect(lines.at(-1)).toMatchObject({ kind: "ended", outcome: ran.lines.at(-1).outcome });
      const ids = lines.filter(({ kind }) => kind === "action").map(({ id }) => id);
      expect(new Set(ids).size).toBeGreaterThan(1);
      const paths = lines.flatMap(({ path }) => (path === undefined ? [] : [path.join(" ")]));
      expect(paths).toContain("eligible attempted completed validated selected applied verified");
    }),
  LIMIT_MS,
);

test("what another's run has left is not removed, and what a dead one has is", async () => {
  const desk = await openDesk([], FAULTY.files);
  try {
    const runs = join(desk.home, "kai/runs");
    mkdirSync(join(runs, "somebody-else"), { recursive: true });
    const dead = join(runs, `${encodeURIComponent(`${hostname()}/1073741824/1`)}~00`);
    mkdirSync(dead);
    const ran = await desk.run(["fix", "--no-model", "--json", "--", "node", "-e", "0"]);
    expect(ran.code).toBe(4);
    expect(existsSync(dead)).toBe(false);
    expect(readdirSync(runs)).toEqual(["somebody-else"]);
  } finally {
    await desk.close();
  }
});

function hostname(): string {
  return spawnSync("node", ["-p", "os.hostname()"]).stdout.toString().trim();
}

function commit(directory: string): void {
  const author = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
  for (const args of [
    ["init", "-q"],
    ["add", "-A"],
    ["commit", "-qm", "all"],
  ]) {
    const { status } = spawnSync("git", [...author, ...args], { cwd: directory });
    expect(status).toBe(0);
  }
}
