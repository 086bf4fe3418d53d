import fc from "fast-check";
import { expect, test } from "vitest";
import { countText, grouped, sizeText, timeText } from "../src/figure.ts";
import { fitted, onOneLine, printable } from "../src/say.ts";

test("text keeps its lines and tabs, and shows controls as their pictures", () => {
  expect(printable("a\tb\nc")).toBe("a\tb\nc");
  expect(printable("\x1b[2J\r\x07\x7f")).toBe("␛[2J␍␇␡");
  expect(printable("\x9b31m \u202e \u2066 \u200b \u2028 \ufeff \u{e0041}")).toBe(
    "�31m � � � � � �",
  );
  expect(printable("\ud800x")).toBe("�x");
});

test("words of any script, and emoji, stay as they are", () => {
  for (const text of ["Grüße", "日本語", "می‌خواهم", "👩‍👩‍👧", "é"])
    expect(printable(text)).toBe(text);
});

test("whatever a text holds, nothing of it can move a cursor", () => {
  const anything = fc.string({ unit: "binary", maxLength: 40 });
  fc.assert(
    fc.property(anything, (text) => {
      for (const character of onOneLine(text)) {
        const code = character.codePointAt(0) ?? 0;
        expect(code >= 0x20 && !(code >= 0x7f && code < 0xa0)).toBe(true);
      }
    }),
  );
});

test("a text that is cut fits its columns, and says that it was", () => {
  expect(fitted("short", 5)).toBe("short");
  expect(fitted("longer", 5)).toBe("long…");
  expect(fitted("日本語", 4)).toBe("日…");
  const text = fc.string({ unit: "grapheme", maxLength: 40 });
  fc.assert(
    fc.property(text, fc.integer({ min: 2, max: 30 }), (given, columnCount) => {
      const cut = fitted(given, columnCount);
      const width = [...cut.replace(/…$/, "")].reduce(
        (sum, each) => sum + (each.charCodeAt(0) < 0x300 ? 1 : 2),
        0,
      );
      expect(cut === given || (cut.endsWith("…") && width < columnCount)).toBe(true);
    }),
  );
});

test("figures have their units", () => {
  expect([0, 12, 1234, 1234567].map(grouped)).toEqual(["0", "12", "1,234", "1,234,567"]);
  expect(countText(1, "match", "matches")).toBe("1 match");
  expect(countText(2000, "file")).toBe("2,000 files");
  expect([3, 999, 1200, 9_949, 59_000, 61_000, 7_500_000].map(timeText)).toEqual([
    "3 ms",
    "999 ms",
    "1.2 s",
    "9.9 s",
    "59 s",
    "1 min 1 s",
    "2 h 5 min",
  ]);
  expect([0, 999, 1000, 12_345, 3_400_000, 5e12].map(sizeText)).toEqual([
    "0 B",
    "999 B",
    "1.0 KB",
    "12 KB",
    "3.4 MB",
    "5.0 TB",
  ]);
});
