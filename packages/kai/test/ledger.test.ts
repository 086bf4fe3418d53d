import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Ledger, openLedger } from "../src/index.ts";
import { revisionOf } from "../src/revision.ts";

function onLedger<T>(env: Readonly<Record<string, string>>, use: (ledger: Ledger) => T): T {
  const root = mkdtempSync(join(tmpdir(), "kai-ledger-"));
  try {
    let nowMs = 100;
    const path = join(root, "kai/ledger.jsonl");
    return use(openLedger({ path, task: "t1", env, nowMs: () => nowMs++ }));
  } finally {
    rmSync(root, { recursive: true });
  }
}

function linesOf({ path }: Ledger): readonly Record<string, unknown>[] {
  return readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}

const revision = revisionOf(new Map([["a.py", "1"]]));

function begun(ledger: Ledger) {
  return ledger.begin({
    revision,
    evidence: "weight 1",
    operation: { kind: "test", argv: ["run", "hunter22"] },
    preconditions: [],
    authorization: "copy",
    expected: "",
    verification: "",
    source: "rule",
  });
}

test("an action's line has its id, its path, and what came of it", () =>
  onLedger({}, (ledger) => {
    const action = begun(ledger);
    action.become("attempted");
    action.become("completed");
    action.become("rejected", { ms: 5 });
    begun(ledger).become("abstained");
    ledger.flush();
    expect(linesOf(ledger)).toMatchObject([
      {
        version: 1,
        task: "t1",
        kind: "action",
        id: "a1",
        status: "rejected",
        path: ["eligible", "attempted", "completed", "rejected"],
        revision,
        result: { ms: 5 },
      },
      { id: "a2", path: ["eligible", "abstained"] },
    ]);
  }));

test("an action goes no way that none may go", () =>
  onLedger({}, (ledger) => {
    const action = begun(ledger);
    expect(() => action.become("verified")).toThrow("a1 went from eligible to verified");
    action.become("attempted");
    action.become("timed_out");
    expect(() => action.become("completed")).toThrow("from timed_out");
  }));

test("the values of variables that are secrets are not written, wherever they stand", () =>
  onLedger({ DB_PASSWORD: "hunter22", HOME: "/home/me", SHORT_KEY: "abc" }, (ledger) => {
    begun(ledger).become("abstained", { said: "hunter22 at /home/me, abc" });
    ledger.flush();
    const [line] = linesOf(ledger);
    expect(line).toMatchObject({
      operation: { argv: ["run", "[DB_PASSWORD]"] },
      result: { said: "[DB_PASSWORD] at /home/me, abc" },
    });
  }));
