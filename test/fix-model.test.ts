import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Script, ScriptStep } from "@dev/model/scripted";
import { expect, test } from "vitest";
import { type Desk, openDesk, type Ran, read } from "./support/dev.ts";
import { FAULTY, leftBy, NODE_TEST, type Project, snapshot } from "./support/fix.ts";

const LIMIT_MS = 180_000;

/** A fault that no change of what is there can mend: the word is nowhere but in the test. */
const MISSING: Project = {
  files: {
    "greet.js": `exports.greet = (name) => {
  if (name === "") return 0;
  return name;
};
`,
    "greet.test.js": NODE_TEST(
      "greet",
      'assert.equal(greet(""), "");',
      'assert.equal(greet("Ada"), "Good morning, Ada");',
      'assert.equal(greet("Bob"), "Good morning, Bob");',
    ),
  },
  argv: ["node", "--test"],
};

const FIRST = { file: "greet.js", line: 2, old: "return 0;", new: 'return "";' };
const SECOND = { file: "greet.js", line: 3, old: "name", new: '"Good morning, " + name' };

function edits(...all: readonly object[]): string {
  return JSON.stringify({ edits: all });
}

function says(text: string): ScriptStep {
  return { reply: { text }, usage: { input: 1_000, output: 100 } };
}

/** Two dollars for a million tokens that go in, and ten for those that come out. */
const PRICED = '\n[models."scripted/test"]\ninput_price = 2\noutput_price = 10\n';

/** Runs `dev fix` with a model that says this, at a price. */
async function asked<T>(
  script: Script,
  project: Project,
  flags: readonly string[],
  use: (ran: Ran, desk: Desk) => T | Promise<T>,
  settings = PRICED,
): Promise<T> {
  const desk = await openDesk(script, project.files);
  try {
    const config = join(desk.home, "config.toml");
    writeFileSync(config, read(config) + settings);
    const ran = await desk.run(["fix", "--json", ...flags, "--", ...project.argv]);
    expect(leftBy(desk)).toEqual([]);
    return await use(ran, desk);
  } finally {
    await desk.close();
  }
}

function spent({ home }: Desk): readonly Record<string, unknown>[] {
  const lines = read(join(home, "kai/spend.jsonl")).split("\n");
  return lines.flatMap((line) => (line === "" ? [] : [JSON.parse(line)]));
}

function told({ home }: Desk): readonly Record<string, unknown>[] {
  const lines = read(join(home, "kai/ledger.jsonl")).split("\n");
  return lines.flatMap((line) => (line === "" ? [] : [JSON.parse(line)]));
}

test(
  "a model's edit mends what no change of a rule does, and the command confirms it",
  () =>
    asked([says(edits(FIRST, SECOND))], MISSING, [], (ran, desk) => {
      const end = ran.lines.at(-1);
      expect(end).toMatchObject({ outcome: "verified", exit: 0, source: "model" });
      expect(ran.code).toBe(0);
      expect(end.cost).toEqual({ inputTokens: 1_000, outputTokens: 100, usd: 0.003 });
      expect(read(join(desk.project, "greet.js"))).toContain('return "Good morning, " + name;');
      expect(spent(desk)).toMatchObject([
        { id: "g1", status: "answered", stage: "low", costMicroUsd: 3_000, billed: "usage" },
      ]);
      expect(told(desk)).toContainEqual(
        expect.objectContaining({ kind: "generate", id: "g1", outcome: "edits" }),
      );
      expect(desk.model.errors).toEqual([]);
    }),
  LIMIT_MS,
);

test(
  "the fallback model is asked once, the same, where the other has no edit with all its effort",
  () =>
    asked(
      [says(edits()), says(edits()), says(edits(FIRST, SECOND))],
      MISSING,
      [],
      (ran, desk) => {
        expect(ran.lines.at(-1)).toMatchObject({ outcome: "verified", source: "model" });
        const calls = spent(desk).map(({ stage, model }) => `${stage} ${model}`);
        expect(calls).toEqual(["low scripted/test", "full scripted/test", "fallback scripted/big"]);
        const [, full, fallback] = desk.model.requests.map(({ body }) => JSON.parse(body));
        expect(fallback).toEqual({ ...full, model: "big" });
      },
      `[fix]\nfallback_model = "scripted/big"\n${PRICED}${PRICED.replace("test", "big")}`,
    ),
  LIMIT_MS,
);

test.each([
  [
    "prose with the edit in it is read",
    [says(`The word is missing.\n\n\`\`\`json\n${edits(FIRST, SECOND)}\n\`\`\`\nThat is all.`)],
    ["edits"],
  ],
  [
    "no edits have the model asked again",
    [says(edits()), says(edits(FIRST, SECOND))],
    ["no_edits", "edits"],
  ],
  [
    "an edit outside of the workspace is refused, and the model told",
    [says(edits({ ...FIRST, file: "../../etc/passwd" })), says(edits(FIRST, SECOND))],
    ["refused", "edits"],
  ],
] as const)(
  "%s",
  (_, script, outcomes) =>
    asked(script, MISSING, [], (ran, desk) => {
      const heard = told(desk).flatMap(({ kind, outcome }) =>
        kind === "generate" ? [outcome] : [],
      );
      expect(heard).toEqual(outcomes);
      expect(ran.lines.at(-1)).toMatchObject({ outcome: "verified", source: "model" });
      expect(ran.code).toBe(0);
    }),
  LIMIT_MS,
);

test(
  "an answer that does not do is told of to the model, whose next one does",
  () => {
    const wrong = edits({ ...SECOND, new: '"Good evening, " + name' });
    return asked([says(wrong), says(edits(FIRST, SECOND))], MISSING, [], (ran, desk) => {
      expect(ran.lines.at(-1)).toMatchObject({ outcome: "verified", source: "recover" });
      expect(desk.model.requests.at(-1)?.body).toContain("Good evening");
      expect(ran.lines.at(-1).cost.usd).toBeCloseTo(0.006, 9);
    });
  },
  LIMIT_MS,
);

test(
  "an edit with which fewer tests fail stays, and the next one builds on it",
  () => {
    const first = {
      ...FIRST,
      old: 'if (name === "") return 0;',
      new: 'if (!name)\n    return "";',
    };
    // The line is that of the file with the first edit in it.
    const second = { ...SECOND, line: 4 };
    return asked([says(edits(first)), says(edits(second))], MISSING, [], (ran, desk) => {
      expect(desk.model.requests.at(-1)?.body).toContain("if (!name)");
      expect(ran.lines.at(-1)).toMatchObject({ outcome: "verified", source: "model" });
      const text = read(join(desk.project, "greet.js"));
      expect(text).toContain('if (!name)\n    return "";\n  return "Good morning, " + name;');
      expect(told(desk)).toContainEqual(
        expect.objectContaining({ kind: "progress", failed_before: 3, failed_after: 2 }),
      );
    });
  },
  LIMIT_MS,
);

test(
  "a stream that is cut is billed by what was heard, and the model asked again",
  () => {
    const text = edits(FIRST, SECOND);
    const long = `${"It is the word that is missing. ".repeat(200)}${text}`;
    const cut = { fault: { kind: "cut", bytes: 4_000, reply: { text: long } } } as const;
    return asked([cut, says(text)], MISSING, [], (ran, desk) => {
      expect(ran.lines.at(-1)).toMatchObject({ outcome: "verified" });
      expect(spent(desk)).toMatchObject([
        { id: "g1", status: "failed", billed: "estimate" },
        { id: "g2", status: "answered", billed: "usage" },
      ]);
    });
  },
  LIMIT_MS,
);

test(
  "where the model does not answer, the search goes on as it would without one",
  () => {
    // As slow as this, the search is cut short in favour of the model before it has tried all.
    const slow = { ...MISSING, argv: ["sh", "-c", "sleep 0.8; node --test"] };
    const out = { fault: { kind: "status", status: 401 } } as const;
    return asked([out], slow, ["--timeout", "14"], (ran) => {
      const at = ran.lines.findIndex(({ text }) => text?.includes("the search goes on"));
      expect(at).toBeGreaterThan(0);
      const later = ran.lines.slice(at).filter(({ type }) => type === "fix.progress");
      expect(later.length).toBeGreaterThan(1);
      const end = ran.lines.at(-1);
      expect(end).toMatchObject({ outcome: "not_fixed", exit: 1 });
      expect(end.reason).toMatch(/nothing was found in 14 s.*; the model: .*401/);
    });
  },
  LIMIT_MS,
);

test(
  "a budget that runs out ends the asking, and leaves the tree as it was",
  async () => {
    const script: Script = [
      { reply: { text: edits(FIRST) }, usage: { input: 400_000, output: 100 } },
    ];
    const desk = await openDesk(script, MISSING.files);
    try {
      const config = join(desk.home, "config.toml");
      writeFileSync(config, read(config) + PRICED);
      const before = snapshot(desk.project);
      const flags = ["--json", "--budget", "0.5", "--timeout", "60"];
      const ran = await desk.run(["fix", ...flags, "--", ...MISSING.argv]);
      expect(ran.code).toBe(1);
      const end = ran.lines.at(-1);
      expect(end).toMatchObject({ outcome: "not_fixed", exit: 1 });
      expect(end.reason).toContain("$0.5000 is spent");
      expect(end.cost.usd).toBeCloseTo(0.801, 9);
      expect(desk.model.requests.length).toBe(1);
      expect(snapshot(desk.project)).toEqual(before);
      expect(leftBy(desk)).toEqual([]);
    } finally {
      await desk.close();
    }
  },
  LIMIT_MS,
);

test(
  "what was asked ahead is stopped when the search settles, and is billed",
  () =>
    asked([{ fault: { kind: "hang" } }], FAULTY, [], (ran, desk) => {
      const end = ran.lines.at(-1);
      expect(end).toMatchObject({ outcome: "verified", source: "rule" });
      const [line, ...others] = spent(desk);
      expect(line).toMatchObject({ id: "g1", status: "cancelled", billed: "estimate" });
      expect(others).toEqual([]);
      expect(end.cost.usd).toBe(Number(line?.costMicroUsd) / 1e6);
      expect(end.cost.usd).toBeGreaterThan(0);
      expect(told(desk)).toContainEqual(expect.objectContaining({ kind: "cancel", id: "g1" }));
    }),
  LIMIT_MS,
);

test(
  "at most so many answers are tried",
  () => {
    const wrong = (word: string) => says(edits(FIRST, { ...SECOND, new: `"${word}, " + name` }));
    const script = ["one", "two", "three"].map(wrong);
    return asked(script, MISSING, ["--max", "1"], (ran, desk) => {
      expect(ran.lines.at(-1)).toMatchObject({ outcome: "not_fixed", exit: 1 });
      expect(desk.model.requests.length).toBe(1);
    });
  },
  LIMIT_MS,
);

test(
  "without a model in the settings that is said once, and the rules go on alone",
  async () => {
    const desk = await openDesk([], FAULTY.files);
    try {
      writeFileSync(join(desk.home, "config.toml"), "");
      const ran = await desk.run(["fix", "--", ...FAULTY.argv]);
      expect(ran.code).toBe(0);
      expect(ran.stderr.match(/no model is configured/g)).toHaveLength(1);
      expect(ran.stderr).toMatch(/no model; fix_/);
    } finally {
      await desk.close();
    }
  },
  LIMIT_MS,
);

test(
  "a budget for a model without a price, and a key that is not there, are refused before anything runs",
  async () => {
    const desk = await openDesk([], FAULTY.files);
    try {
      const before = snapshot(desk.project);
      const priceless = await desk.run(["fix", "--budget", "2", "--", ...FAULTY.argv]);
      expect(priceless).toMatchObject({ code: 2, stdout: "" });
      expect(priceless.stderr).toContain("--budget cannot be kept");
      const config = join(desk.home, "config.toml");
      writeFileSync(config, `${read(config)}env_key = "NOT_SET"\n`);
      const keyless = await desk.run(["fix", "--", ...FAULTY.argv]);
      expect(keyless).toMatchObject({ code: 2, stdout: "" });
      expect(keyless.stderr).toContain("--no-model");
      expect(snapshot(desk.project)).toEqual(before);
    } finally {
      await desk.close();
    }
  },
  LIMIT_MS,
);

test.each([
  ["a decision service that is configured is asked", [], true],
  ["with rules alone it is not", ["--mode", "rule"], false],
] as const)(
  "%s",
  async (_, flags, isAsked) => {
    const paths: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      paths.push(request.url);
      request.resume().on("end", () => response.writeHead(500).end());
    });
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const { port } = server.address() as AddressInfo;
    const kai = `${PRICED}\n[kai]\ndecisions = "http://127.0.0.1:${port}/v1"\n`;
    try {
      // What is asked ahead waits for no decision; what is asked after it does.
      const script = [says(edits()), says(edits(FIRST, SECOND))];
      await asked(
        script,
        MISSING,
        flags,
        (ran) => expect(ran.lines.at(-1)).toMatchObject({ outcome: "verified" }),
        kai,
      );
      expect(paths).toEqual(isAsked ? ["/v1/decisions"] : []);
    } finally {
      server.close();
    }
  },
  LIMIT_MS,
);
