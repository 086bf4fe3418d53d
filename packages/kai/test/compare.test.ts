import { expect, test } from "vitest";
import { compare, differing, type Thresholds } from "../src/compare.ts";
import type { Candidate } from "../src/index.ts";

function candidate(weight: number, text = "x"): Candidate {
  const edits = [{ file: "a.py", from: 0, to: 1, text }];
  return { edits, operator: "test", site: { file: "a.py", line: 1, function: null }, weight };
}

const GIVEN: Thresholds = {
  version: 1,
  differingShare: 0.1,
  leadingShare: 0.8,
  homeCount: 5,
  hangShare: 0.2,
  oddShare: 0.1,
};
const inputs = Array.from({ length: 10 }, (_, at) => String(at));
const calledCount = 2;
const same = inputs.map(() => "v1");
const other = inputs.map((_, at) => (at < 5 ? "v1" : "v2"));

test("one that passes is alone", () => {
  expect(compare([candidate(1)], null, GIVEN)).toMatchObject({ kind: "alone", chosen: 0 });
});

test("those that do the same agree, and the likeliest of the shortest stands for them", () => {
  const all = [candidate(3, "x\ny"), candidate(1), candidate(2)];
  const known = { inputs, calledCount, outcomes: [same, same, same] };
  expect(compare(all, known, GIVEN)).toMatchObject({ kind: "agreeing", chosen: 2 });
});

test("those that do other things disagree, with an input that shows it", () => {
  const known = { inputs, calledCount, outcomes: [same, other] };
  expect(compare([candidate(2), candidate(1)], known, GIVEN)).toMatchObject({
    kind: "disagreeing",
    example: { input: "5", outcomes: ["v1", "v2"] },
  });
});

test("one that is far likelier than what does other things leads", () => {
  const known = { inputs, calledCount, outcomes: [same, other] };
  expect(compare([candidate(9), candidate(1)], known, GIVEN).kind).toBe("leading");
});

test("where nothing is known of what they do, each is alone with its weight", () => {
  const found = compare([candidate(2), candidate(1)], null, GIVEN);
  expect(found).toMatchObject({ kind: "disagreeing", example: null });
  expect(found.groups).toHaveLength(2);
});

test("what one refuses counts half, what both refuse nothing, and what is not known is left out", () => {
  expect(differing(["v1", "v1"], ["eValueError", "v1"])).toBe(0.25);
  expect(differing(["eKeyError"], ["eValueError"])).toBe(0);
  expect(differing(["v1", "u"], ["v1", "v2"])).toBe(0);
  expect(differing(["u"], ["v1"])).toBe(1);
});

test("a call that was stopped at its time says something only where there are many of them", () => {
  expect(differing(["v1", "v1", "v1", "v1"], ["t", "v1", "v1", "v1"], 0.25)).toBe(0);
  expect(differing(["v1", "v1", "v1", "v1"], ["t", "t", "v1", "v1"], 0.25)).toBe(0.5);
  expect(differing(["t"], ["t"], 0.25)).toBe(0);
});

test("inputs of a make that no test has say nothing while there are enough of the tests' own make", () => {
  const made = ["1", "2", "3", "4", "5", "6", "-1", "-2", "0", "''"];
  const apart = made.map((_, at) => (at < 6 ? "v1" : "v2"));
  const known = { inputs: made, calledCount, outcomes: [same, apart] };
  const all = [candidate(1), candidate(1)];
  expect(compare(all, known, GIVEN).kind).toBe("agreeing");
  expect(compare(all, known, { ...GIVEN, homeCount: 7 }).kind).toBe("disagreeing");
});

test("one that gives back a kind of value that no test asks for hardly counts", () => {
  const odd = inputs.map((_, at) => (at < 5 ? "v1" : "vNone"));
  const known = { inputs, calledCount, outcomes: [same, odd] };
  const found = compare([candidate(1), candidate(1)], known, GIVEN);
  expect(found).toMatchObject({ kind: "leading", chosen: 0 });
  const asked = { ...known, calledCount: 6 };
  expect(compare([candidate(1), candidate(1)], asked, GIVEN).kind).toBe("disagreeing");
});
