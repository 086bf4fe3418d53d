import type { State } from "../help.ts";
import { testFilesOf } from "../locate/witness.ts";
import type { Command, Report } from "../report/report.ts";
import type { Revision } from "../revision.ts";
import { textNow } from "../scene.ts";
import { changeOf } from "./change.ts";

/** What a model is asked about: all of it as it is at one revision. */
export type Subject = {
  readonly revision: Revision;
  readonly command: Command;
  /** What the command said failed. */
  readonly report: Report;
  /** The likeliest place of the fault first. */
  readonly ranking: readonly RankedPlace[];
  /** The files of the failing tests. */
  readonly tests: readonly string[];
  /** What was tried at this revision and did not do. */
  readonly tried: readonly Tried[];
  /** A file's text, at this revision; null for what is no text file of the workspace. */
  readonly text: (file: string) => Promise<string | null>;
};

/** A function, or what is outside of all in a file. */
export type RankedPlace = {
  readonly file: string;
  readonly function: string | null;
  readonly firstLine: number;
  readonly lastLine: number;
  /** The likeliest first. */
  readonly lines: readonly { readonly line: number }[];
};

export type Tried = {
  /** As a person reads a change. */
  readonly diff: string;
  /** What the tests said of it. */
  readonly outcome: string;
};

export async function subjectOf(state: State): Promise<Subject> {
  const { revision, command, report, scene, workspace, history } = state;
  const text = async (file: string): Promise<string | null> =>
    workspace.files.has(file) ? textNow(workspace.directory, file) : null;
  const tried = await Promise.all(
    history.map(async ({ candidate, report: after }) => ({
      diff: await changeOf(candidate, text),
      outcome: outcomeOf(after),
    })),
  );
  const tests = [...testFilesOf(report)];
  return { revision, command, report, ranking: scene.ranking, tests, tried, text };
}

function outcomeOf({ failures, failedCount }: Report): string {
  const shown = failures.slice(0, 3).map(({ test, message }) => `${test}: ${message}`);
  const count = failedCount ?? failures.length;
  return [`${count} failing`, ...shown].join("\n");
}
