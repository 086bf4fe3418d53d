import assert from "node:assert/strict";
import { test } from "node:test";
import { formatMoney, parseMoney } from "../src/money.js";

test("an amount is read as whole cents", () => {
  assert.equal(parseMoney("12.50"), 1250);
  assert.equal(parseMoney(" 3 "), 300);
});

test("a refund is negative", () => {
  assert.equal(parseMoney("-12.50"), -1250);
});

test("a refund of less than one unit is negative", () => {
  assert.equal(parseMoney("-0.50"), -50);
});

test("what is not an amount is refused", () => {
  for (const text of ["", "1.5", "1,50", "twelve"]) assert.throws(() => parseMoney(text));
});

test("cents are written with two decimals", () => {
  assert.equal(formatMoney(5), "0.05");
  assert.equal(formatMoney(-1250), "-12.50");
});
