import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ANSWER_LIMITS, readAnswer } from "../src/generate/answer.ts";

const EDIT = { file: "a.py", line: 3, old: "x = 1\n", new: "x = 2\n" };
const JSON_TEXT = JSON.stringify({ edits: [EDIT] });

describe("an answer is read", () => {
  test.each([
    ["alone", JSON_TEXT],
    ["in a fence", `\`\`\`json\n${JSON_TEXT}\n\`\`\``],
    ["in prose with braces and quotes", `It's {wrong}: "a. Use\n${JSON_TEXT}\nThat's {all} of it"`],
    ["spread over lines", JSON.stringify({ edits: [EDIT] }, null, 2)],
    ["with fields that nobody asked for", JSON.stringify({ why: "x", edits: [{ ...EDIT, b: 1 }] })],
    ["within another object", JSON.stringify({ answer: { edits: [EDIT] } })],
    ["behind a draft", `${JSON.stringify({ edits: [{ ...EDIT, new: "y" }] })}\nNo:\n${JSON_TEXT}`],
  ])("%s", (_, text) => {
    expect(readAnswer(text)).toEqual({ kind: "edits", proposals: [EDIT] });
  });

  test("whatever is in its texts, and in the prose around them", () => {
    const text = fc.string({ unit: "binary" });
    const prose = text.filter((said) => !said.includes('"edits"') && !said.includes("{"));
    fc.assert(
      fc.property(prose, text, text, prose, (before, old, made, after) => {
        const edit = { file: "a", line: 1, old, new: made };
        const said = `${before}${JSON.stringify({ edits: [edit] })}${after}`;
        expect(readAnswer(said)).toEqual({ kind: "edits", proposals: [edit] });
      }),
    );
  });
});

describe("a miss says which it is", () => {
  test.each([
    ["no_json", ""],
    ["no_json", "I would change line 3."],
    ["no_json", "The set {x} is empty."],
    ["unreadable", JSON_TEXT.slice(0, -3)],
    ["unreadable", `{"edits": [{'file': 'a.py'}]}`],
    ["unreadable", JSON.stringify({ patch: "x" })],
    ["unreadable", JSON.stringify([EDIT])],
    ["unreadable", JSON.stringify({ edits: "x" })],
    ["unreadable", JSON.stringify({ edits: [{ ...EDIT, line: 0 }] })],
    ["unreadable", JSON.stringify({ edits: [{ ...EDIT, line: 1.5 }] })],
    ["unreadable", JSON.stringify({ edits: [{ ...EDIT, file: "" }] })],
    ["unreadable", JSON.stringify({ edits: [{ ...EDIT, old: null }] })],
    ["unreadable", JSON.stringify({ edits: [{ file: "a", line: 1, old: "x" }] })],
    ["unreadable", JSON.stringify({ edits: [null] })],
    ["unreadable", JSON.stringify({ edits: Array(ANSWER_LIMITS.editCount + 1).fill(EDIT) })],
    ["no_edits", '{"edits":[]}'],
  ])("%s: %s", (kind, text) => {
    expect(readAnswer(text).kind).toBe(kind);
  });

  test("no edits, with what may be the files that it needs, each once", () => {
    const text = '{"edits":[],"need":"src/a/b.py"}\nI need src/a/b.py, or c.go.';
    expect(readAnswer(text)).toEqual({ kind: "no_edits", names: ["src/a/b.py", "c.go"] });
  });

  test("in little time, also where an answer is all braces, or one long word", () => {
    const startMs = process.cpuUsage().user / 1_000;
    expect(readAnswer('{"edits":'.repeat(20_000)).kind).toBe("unreadable");
    expect(readAnswer(`{"edits":[]} ${"a".repeat(300_000)}`).kind).toBe("no_edits");
    expect(process.cpuUsage().user / 1_000 - startMs).toBeLessThan(2_000);
  });
});
