import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { openRouter, ROUTER_LIMITS } from "@dev/model";
import { type Script, type Scripted, startScripted } from "@dev/model/scripted";
import type { Candidate } from "../src/candidate.ts";
import { edited } from "../src/candidate.ts";
import { type Decisions, openDecisions } from "../src/decide.ts";
import { type Generation, openGeneration } from "../src/generate/generation.ts";
import type { GenerateRecord } from "../src/generate/record.ts";
import { routerAsker } from "../src/generate/router.ts";
import type { Help, Miss, State } from "../src/help.ts";
import { fingerprint } from "../src/report/fingerprint.ts";
import type { Report } from "../src/report/report.ts";
import { workspaceOf } from "../src/report/workspace.ts";
import { revisionOf } from "../src/revision.ts";
import { openSpend, type Spend, type SpendLine } from "../src/spend.ts";

export const NEVER: AbortSignal = new AbortController().signal;

/** Two dollars for a million tokens that go in, and ten for those that come out. */
export const PRICES = {
  inputPrice: 2,
  cacheWritePrice: 0,
  outputPrice: 10,
  longInputTimes: 1,
  longOutputTimes: 1,
};

export const FILES = {
  "src/sum.js": "export function sum(a, b) {\n  return a - b;\n}\n",
  "src/table.js": "export const TABLE = { one: 1 };\n",
  "test/sum.test.js": "import { sum } from '../src/sum.js';\ncheck('adds', sum(1, 2) === 3);\n",
} as const;

const REPORT: Report = {
  runner: "node-test",
  failures: [
    {
      test: "adds",
      file: "test/sum.test.js",
      kind: "assertion",
      message: "expected 3, got -1",
      frames: [{ file: "test/sum.test.js", line: 2, function: "" }],
    },
  ],
  passedCount: 0,
  failedCount: 1,
};

/** The edit that mends it, with whatever is said otherwise. */
export function mend(other: Readonly<Record<string, unknown>> = {}): object {
  return { file: "src/sum.js", line: 2, old: "return a - b;", new: "return a + b;", ...other };
}

export function answer(...edits: readonly object[]): string {
  return JSON.stringify({ edits });
}

export type Play = AsyncDisposable & {
  readonly generation: Generation;
  readonly state: State;
  readonly directory: string;
  /** Lets time pass. */
  wait(ms: number): void;
  readonly spend: Spend;
  readonly records: readonly GenerateRecord[];
  /** The outcome of each call that was answered, with its stage. */
  outcomes(): readonly string[];
  lines(): Promise<readonly (SpendLine & { readonly run: string })[]>;
  /** The text of a file with a candidate's edits made. */
  made(help: Help, file?: string): Promise<string>;
  /** The state after a candidate of a help was tried and failed. */
  after(help: Help): State;
};

export type PlayOptions = {
  readonly url: string;
  readonly fallbackUrl?: string;
  readonly files?: Readonly<Record<string, string>>;
  readonly budgetMicroUsd?: number;
  readonly decisions?: Decisions;
  readonly ranked?: readonly string[];
};

export async function play(options: PlayOptions): Promise<Play> {
  const directory = await mkdtemp(join(tmpdir(), "kai-generate-"));
  const files = options.files ?? FILES;
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(directory, "tree", path)), { recursive: true });
    await writeFile(join(directory, "tree", path), text);
  }
  const path = join(directory, "spend", "spend.jsonl");
  const opened = await openSpend(path, "run-1");
  if (!opened.ok) throw new Error(opened.fault.message);
  const spend = opened.value;
  const router = pricedRouter(options.url, options.fallbackUrl ?? null);
  const records: GenerateRecord[] = [];
  let nowMs = 1_000;
  const clock = (): number => {
    nowMs += 1;
    return nowMs;
  };
  const generation = openGeneration({
    asker: routerAsker(router, "main/model", PRICES),
    fallback: options.fallbackUrl ? routerAsker(router, "other/model", PRICES) : null,
    decisions: options.decisions ?? openDecisions({ transport: null, model: "", nowMs: clock }),
    spend,
    budgetMicroUsd: options.budgetMicroUsd ?? null,
    nowMs: clock,
    record: (record) => records.push(record),
  });
  const state = stateOf(join(directory, "tree"), files, options.ranked ?? ["src/sum.js"]);
  return {
    generation,
    state,
    directory,
    spend,
    records,
    wait: (ms) => {
      nowMs += ms;
    },
    outcomes: () =>
      records.flatMap((each) =>
        each.kind === "generate" ? [`${each.stage} ${each.outcome}`] : [],
      ),
    lines: async () =>
      (await readFile(path, "utf8"))
        .trimEnd()
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line)),
    made: async (help, file = "src/sum.js") => {
      const text = await readFile(join(directory, "tree", file), "utf8");
      return edited(text, file, candidateOf(help).edits);
    },
    after: (help) => ({ ...state, history: [...state.history, missOf(candidateOf(help))] }),
    async [Symbol.asyncDispose]() {
      await generation.close();
      await spend.close();
      router.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

export function candidateOf(help: Help): Candidate {
  if (help.kind !== "candidate") throw new Error(`no candidate: ${help.why}`);
  return help.candidate;
}

export function whyOf(help: Help): string {
  if (help.kind !== "none") throw new Error("there is a candidate");
  return help.why;
}

/**
 * A scripted model that closes with `await using`, and fails the test where it was asked unlike its
 * script.
 */
export async function scripted(script: Script): Promise<Scripted & AsyncDisposable> {
  const model = await startScripted(script);
  return Object.assign(model, {
    async [Symbol.asyncDispose]() {
      await model.close();
      if (model.errors.length > 0) throw new Error(model.errors.join("\n"));
    },
  });
}

function missOf(candidate: Candidate): Miss {
  return { candidate, source: "model", report: REPORT, fingerprint: fingerprint(REPORT) };
}

function stateOf(
  directory: string,
  files: Readonly<Record<string, string>>,
  ranked: readonly string[],
): State {
  const ranking = ranked.map((file) => ({
    file,
    function: "sum",
    firstLine: 1,
    lastLine: 3,
    share: 1 / ranked.length,
    values: {} as never,
    lines: [],
  }));
  const covered = { kind: "none", why: "no run" } as const;
  return {
    revision: revisionOf(new Map(Object.entries(files))),
    command: { argv: ["node", "--test"], cwd: "." },
    report: REPORT,
    scene: { report: REPORT, covered, sources: [], ranking, suspects: [], leftCount: 0 },
    workspace: workspaceOf(directory, Object.keys(files)),
    history: [],
  };
}

/** A router as it is, and a price on what it says was used. */
function pricedRouter(url: string, otherUrl: string | null) {
  const wire = "openai-chat" as const;
  const router = openRouter(
    {
      main: { wire, baseUrl: url, key: null },
      ...(otherUrl === null ? {} : { other: { wire, baseUrl: otherUrl, key: null } }),
    },
    { sleep: async () => {}, random: () => 0, limits: ROUTER_LIMITS },
  );
  const ask: Parameters<typeof routerAsker>[0]["ask"] = async (...asked) => {
    const heard = await router.ask(...asked);
    const { inputTokens, outputTokens } = heard.usage;
    const costMicroUsd = inputTokens * PRICES.inputPrice + outputTokens * PRICES.outputPrice;
    return { ...heard, costMicroUsd };
  };
  return { ask, close: () => router.close() };
}
