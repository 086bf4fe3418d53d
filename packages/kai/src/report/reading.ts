import { readCargo, readsCargo } from "./cargo.ts";
import { readGo, readsGo } from "./go.ts";
import { readJest, readsJest } from "./jest.ts";
import { readJunit, readSurefire, readsJunit, readsSurefire } from "./junit.ts";
import { readMocha, readsMocha } from "./mocha.ts";
import { readNodeTest, readsNodeTest } from "./node-test.ts";
import { readPlain } from "./plain.ts";
import { readPytest, readsPytest } from "./pytest.ts";
import type { Command, Output, Report, Runner } from "./report.ts";
import { readsNodeTap, readsTap, readTap } from "./tap.ts";
import { type Transcript, transcriptOf } from "./transcript.ts";
import { readsUnittest, readUnittest } from "./unittest.ts";
import { readsVitest, readVitest } from "./vitest.ts";
import type { Place, Workspace } from "./workspace.ts";

/**
 * Reads what a test command has written. `runner` is what its words say (see `runnerOf`); where they
 * say nothing, the output does. It never throws, and a command that failed has at least one failure.
 */
export function readReport(
  runner: Runner,
  command: Command,
  output: Output,
  workspace: Workspace,
): Report {
  const transcript = transcriptOf(output);
  const place = { workspace, cwd: command.cwd };
  const format = formatOf(runner, transcript);
  const named = runner === "unknown" && format !== null ? format.runner : runner;
  const read = format?.read(transcript, place, named);
  if (read !== undefined && read.failures.length > 0) return { runner: named, ...read };
  const failure = readPlain(transcript, place);
  return {
    runner: named,
    failures: failure === null ? [] : [failure],
    passedCount: read?.passedCount ?? null,
    failedCount: read?.failedCount ?? null,
  };
}

type Format = {
  readonly runner: Runner;
  readonly reads: (transcript: Transcript) => boolean;
  readonly read: (transcript: Transcript, place: Place, runner: Runner) => Omit<Report, "runner">;
};

const formats: readonly Format[] = [
  { runner: "junit", reads: readsJunit, read: readJunit },
  { runner: "node-test", reads: readsNodeTap, read: readTap },
  { runner: "tap", reads: readsTap, read: readTap },
  { runner: "pytest", reads: readsPytest, read: readPytest },
  { runner: "unittest", reads: readsUnittest, read: readUnittest },
  { runner: "node-test", reads: readsNodeTest, read: readNodeTest },
  { runner: "vitest", reads: readsVitest, read: readVitest },
  { runner: "jest", reads: readsJest, read: readJest },
  { runner: "mocha", reads: readsMocha, read: readMocha },
  { runner: "cargo", reads: readsCargo, read: readCargo },
  { runner: "go", reads: readsGo, read: readGo },
  { runner: "junit", reads: readsSurefire, read: readSurefire },
];

/** The runner's own format comes first: a test may print what looks like another's. */
function formatOf(runner: Runner, transcript: Transcript): Format | null {
  const own = formats.find((it) => it.runner === runner && it.reads(transcript));
  return own ?? formats.find((it) => it.reads(transcript)) ?? null;
}
