import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isProgress, RECOVER_LIMITS, recover, type Setback } from "../src/recover.ts";
import type { Failure, Report } from "../src/report/report.ts";
import { type Revision, revisionOf } from "../src/revision.ts";

const HERE = revisionOf(new Map([["a", "1"]]));
const THERE = revisionOf(new Map([["a", "2"]]));
const STATE = { revision: HERE, fingerprint: "base" };

function setback(action: string, after: string, revision: Revision = HERE): Setback {
  const outcome = { kind: "failed", fingerprint: after } as const;
  return { revision, fingerprint: "base", action, diff: "", outcome };
}

describe("recover", () => {
  test("takes the cheapest that applies where nothing has failed", () => {
    expect(recover([], STATE, ["low", "full"])).toMatchObject({ kind: "another", action: "low" });
  });

  test("picks another action where the failure was the same after one", () => {
    const plan = recover([setback("low", "base")], STATE, ["low", "full"]);
    expect(plan).toMatchObject({ kind: "another", action: "full" });
    expect(plan.why).toContain("low");
  });

  test("escalates where all that applies left the failure as it was", () => {
    const plan = recover([setback("low", "base"), setback("full", "base")], STATE, ["low", "full"]);
    expect(plan.kind).toBe("escalate");
    expect(plan.why).toContain("full");
  });

  test("may take an action again that changed what fails, and not once it fails the same way twice", () => {
    const once = [setback("low", "x")];
    expect(recover(once, STATE, ["low"])).toMatchObject({ kind: "another", action: "low" });
    expect(recover([...once, setback("low", "x")], STATE, ["low"]).kind).toBe("escalate");
  });

  test("starts anew where the state has moved", () => {
    const before = [setback("low", "base", THERE)];
    expect(recover(before, STATE, ["low"])).toMatchObject({ kind: "another", action: "low" });
  });

  test("comes to an end, and never takes an action that left all as it was", () => {
    const outcome = fc.constantFrom("base", "x", "y", "z", "");
    fc.assert(
      fc.property(fc.infiniteStream(outcome), fc.uniqueArray(fc.string()), (outcomes, actions) => {
        const done: Setback[] = [];
        const settled = new Set<string>();
        for (;;) {
          const plan = recover(done, STATE, actions);
          if (plan.kind === "escalate") break;
          expect(settled.has(plan.action)).toBe(false);
          const after: string = outcomes.next().value ?? "";
          if (after === "base" || after === "") settled.add(plan.action);
          done.push(setback(plan.action, after));
        }
        expect(done.length).toBeLessThanOrEqual(
          Math.min(actions.length * RECOVER_LIMITS.actionCount, RECOVER_LIMITS.setbackCount),
        );
      }),
    );
  });
});

describe("progress", () => {
  const failure = (test: string, kind: Failure["kind"] = "assertion"): Failure => ({
    test,
    file: null,
    kind,
    message: "",
    frames: [],
  });
  const report = (passed: number | null, ...failures: readonly Failure[]): Report => ({
    runner: "pytest",
    failures,
    passedCount: passed,
    failedCount: failures.length,
  });
  const [a, b] = [failure("a"), failure("b")];

  test.each([
    ["fewer tests fail", report(1, a, b), report(2, a), true],
    ["as many fail", report(1, a), report(1, b), false],
    ["more fail", report(2, a), report(1, a, b), false],
    ["fewer fail as fewer run", report(3, a, b), report(3, a), false],
    ["a file no longer loads", report(1, a, b), report(2, failure("c", "load")), false],
    ["nobody says how many passed before", report(null, a, b), report(null, a), true],
  ])("where %s", (_, before, after, expected) => {
    expect(isProgress(before, after)).toBe(expected);
  });

  test("is none where the runner does not say what failed", () => {
    const silent: Report = {
      runner: "unknown",
      failures: [],
      passedCount: null,
      failedCount: null,
    };
    expect(isProgress(report(1, a, b), silent)).toBe(false);
    expect(isProgress(silent, report(1, a))).toBe(false);
  });
});
