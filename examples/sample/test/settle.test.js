import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "../src/settle.js";
import { balances, split } from "../src/split.js";

test("no cent is lost in a split", () => {
  assert.deepEqual(split(1000, 3), [334, 333, 333]);
  assert.deepEqual(split(-1000, 3), [-334, -333, -333]);
});

test("balances add up to zero", () => {
  const balance = balances([{ who: "Ada", cents: 1000 }], ["Ada", "Bo", "Cy"]);
  assert.deepEqual([...balance.values()], [666, -333, -333]);
});

test("payments bring every balance to zero", () => {
  const expenses = [
    { who: "Ada", cents: 9000 },
    { who: "Bo", cents: 3000 },
  ];
  assert.deepEqual(settle(balances(expenses, ["Ada", "Bo", "Cy"])), [
    { from: "Cy", to: "Ada", cents: 4000 },
    { from: "Bo", to: "Ada", cents: 1000 },
  ]);
});
