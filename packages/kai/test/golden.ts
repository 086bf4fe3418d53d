import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { runnerOf } from "../src/report/invocation.ts";
import { readReport } from "../src/report/reading.ts";
import type { Command, Output, Report, Runner } from "../src/report/report.ts";
import { workspaceOf } from "../src/report/workspace.ts";

/** What record.mjs has written of one project and one version of a runner. */
export type Golden = {
  readonly name: string;
  readonly tool: string;
  readonly directory: string;
  readonly files: Readonly<Record<string, string>>;
  readonly runs: readonly Run[];
};

export type Run = {
  readonly name: string;
  readonly command: Command;
  readonly output: Output;
  readonly expected: Expected;
};

type Expected = {
  readonly runner: Runner;
  readonly passed: number | null;
  readonly failed: number | null;
  /** A test, its file, the kind, a part of the message, and the frames. */
  readonly failures: readonly (readonly [string, string | null, string, string, string[]])[];
};

const folder = join(import.meta.dirname, "golden/report");

export const goldens: readonly Golden[] = readdirSync(folder)
  .filter((name) => name.endsWith(".json"))
  .map((name) => ({
    ...(JSON.parse(readFileSync(join(folder, name), "utf8")) as Golden),
    name: name.slice(0, -".json".length),
  }));

export function goldenOf(name: string): Golden {
  const golden = goldens.find((it) => it.name === name);
  if (golden === undefined) throw new Error(`no golden ${name}`);
  return golden;
}

/** The report of a golden's run, or of other output in its place. */
export function reportOf(golden: Golden, run: Run, output: Output = run.output): Report {
  const workspace = workspaceOf(golden.directory, Object.keys(golden.files));
  // Its package.json is not on this disk, so what `npm test` runs is taken as said.
  const runner = run.command.argv[0] === "npm" ? run.expected.runner : runnerOf(run.command, "/");
  return readReport(runner, run.command, output, workspace);
}
