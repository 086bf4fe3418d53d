import { parseCase, run } from "@dev/sim";
import { expect, test } from "vitest";

test("the README's example does what it says", async () => {
  const ran = await run(parseCase("exec/7/driver@22"));
  const breaches = ran.breaches;
  const commands = [...ran.happened];
  expect(breaches).toEqual([]);
  expect(commands).toHaveLength(1);
  expect(ran.trace.some((line) => line.includes("*** driver ***"))).toBe(true);
});
