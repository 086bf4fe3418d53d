import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { edited } from "../src/candidate.ts";
import type { Proposal } from "../src/generate/answer.ts";
import { isInside, type Placement, placed } from "../src/generate/placement.ts";

const FILE = "a.js";

function edit(line: number, old: string, made: string, file: string = FILE): Proposal {
  return { file, line, old, new: made };
}

function place(text: string, ...proposals: readonly Proposal[]): Placement {
  return placed(proposals, (file) => (file === FILE ? text : null));
}

/** The text with the proposals made, or why they cannot be. */
function made(text: string, ...proposals: readonly Proposal[]): string {
  const placement = place(text, ...proposals);
  return placement.kind === "placed"
    ? edited(text, FILE, placement.edits)
    : `refused: ${placement.refusal.why}`;
}

describe("old text stands", () => {
  test("where it begins on its line, though it is elsewhere too", () => {
    expect(made("x = 1\nx = 1\n", edit(2, "x = 1", "x = 2"))).toBe("x = 1\nx = 2\n");
  });

  test("wherever it is the only one, though the line is wrong", () => {
    expect(made("a\nb\nc\n", edit(9, "b", "B"))).toBe("a\nB\nc\n");
  });

  test("over several lines", () => {
    expect(made("a\n  b\n  c\nd\n", edit(2, "  b\n  c\n", "  e\n"))).toBe("a\n  e\nd\n");
  });

  test.each([
    ["in no other spelling", "\tx = 1\n", edit(1, "  x = 1", "  x = 2"), "is not in the file"],
    ["not with other spaces", "x  =  1\n", edit(1, "x = 1", "x = 2"), "is not in the file"],
    ["not twice elsewhere", "a\nb\nb\n", edit(1, "b", "c"), "stands 2 times elsewhere"],
    ["not twice on its line", "a + a\n", edit(1, "a", "b"), "stands 2 times on that line"],
    ["not where it is empty", "a\n", edit(1, "", "b"), "is empty"],
    ["not where it stays as it is", "a\n", edit(1, "a", "a"), "are the same"],
  ])("%s", (_, text, proposal, why) => {
    expect(made(text, proposal)).toMatch(/^refused: /);
    expect(made(text, proposal)).toContain(why);
  });
});

describe("a file keeps", () => {
  test("its line ends, on lines that come too", () => {
    expect(made("a\r\nb\r\nc\r\n", edit(2, "b\n", "b\nB\n"))).toBe("a\r\nb\r\nB\r\nc\r\n");
  });

  test("each line's own end, where they differ", () => {
    expect(made("a\r\nb\nc\r\n", edit(1, "a\nb\nc", "a\nB\nc"))).toBe("a\r\nB\nc\r\n");
  });

  test("its mark of byte order, and its tabs", () => {
    expect(made("\ufeffif x:\n\ty\n", edit(1, "if x:\n\ty", "if z:\n\ty"))).toBe(
      "\ufeffif z:\n\ty\n",
    );
  });

  test("all but what differs between old and new", () => {
    const placement = place("abc def\n", edit(1, "abc def", "abc dxf"));
    expect(placement).toEqual({
      kind: "placed",
      edits: [{ file: FILE, from: 5, to: 6, text: "x" }],
      line: 1,
    });
  });

  test("whole characters where two of them begin alike", () => {
    expect(place("'😀'\n", edit(1, "😀", "😁"))).toEqual({
      kind: "placed",
      edits: [{ file: FILE, from: 1, to: 3, text: "😁" }],
      line: 1,
    });
  });
});

describe("edits are refused", () => {
  test("where two of them overlap", () => {
    const refusal = made("abcdef\n", edit(1, "abcd", "x"), edit(1, "cdef", "y"));
    expect(refusal).toContain("overlap");
  });

  test("where two are the same", () => {
    expect(made("a\n", edit(1, "a", "b"), edit(1, "a", "b"))).toContain("overlap");
  });

  test.each([
    "../a.js",
    "src/../../a.js",
    "/etc/passwd",
    "C:/a.js",
    ".git/config",
    "x/.GIT/hooks/a",
    "a//b",
    "",
    "a\0b",
    "missing.js",
  ])("outside of the files that may be edited: %j", (file) => {
    const placement = placed([edit(1, "a", "b", file)], (asked) =>
      asked === "missing.js" ? null : "a\n",
    );
    expect(placement.kind).toBe("refused");
  });

  test("all of them, where one is", () => {
    expect(made("a\nb\n", edit(1, "a", "x"), edit(2, "z", "y"))).toMatch(/^refused/);
  });
});

test("a path may begin with the directory that it is in", () => {
  expect(made("a\n", edit(1, "a", "b", "./a.js"))).toBe("b\n");
  expect(isInside("./a.js")).toBe(false);
});

test("the line is that of what changes, not the one that was said", () => {
  expect(place("a\r\nb\r\nc\r\n", edit(7, "a\nb\nc", "a\nb\nC"))).toMatchObject({ line: 3 });
});

test("edits that touch are made in order, wherever the answer has them", () => {
  expect(made("ab\n", edit(1, "b", "2"), edit(1, "a", "1"))).toBe("12\n");
});

test("what an edit makes is what replacing the old text makes", () => {
  const line = fc.stringMatching(/^[ab\t 😀]{0,6}$/u);
  const end = fc.constantFrom("\n", "\r\n");
  const lines = fc.array(line, { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(lines, end, fc.nat(), fc.nat(), lines, (texts, lineEnd, from, count, other) => {
      const text = texts.join(lineEnd);
      const first = from % texts.length;
      const last = first + (count % (texts.length - first));
      const old = texts.slice(first, last + 1).join("\n");
      const placement = place(text, edit(first + 1, old, other.join("\n")));
      if (placement.kind === "refused") return;
      const unified = edited(text, FILE, placement.edits).replaceAll("\r\n", "\n");
      const before = texts
        .slice(0, first)
        .map((each) => `${each}\n`)
        .join("");
      const at = texts.join("\n").indexOf(old, before.length);
      const whole = texts.join("\n");
      expect(unified).toBe(whole.slice(0, at) + other.join("\n") + whole.slice(at + old.length));
      if (lineEnd === "\r\n" && texts.length > 1) {
        expect(edited(text, FILE, placement.edits)).not.toMatch(/(^|[^\r])\n/);
      }
    }),
  );
});
