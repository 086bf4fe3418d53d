import assert from "node:assert/strict";
import { test } from "node:test";
import { parseCsv, readExpenses } from "../src/csv.js";

test("columns are found by name", () => {
  const expenses = readExpenses("what,who,amount\nHotel,Ada,90.00\n");
  assert.deepEqual(expenses, [{ who: "Ada", cents: 9000, what: "Hotel" }]);
});

test("a quoted field keeps commas, quotes and line ends", () => {
  assert.deepEqual(parseCsv('a,"b, ""c""\nd"\r\n,e'), [["a", 'b, "c"\nd'], ["", "e"]]);
});

test("a quote that is not closed is refused", () => {
  assert.throws(() => parseCsv('a,"b\n'), /row 1/);
});
