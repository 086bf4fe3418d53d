import { parseCase, report, run } from "@dev/sim";
import { expect, test } from "vitest";

const given = process.env.SIM_CASE;

test.runIf(given !== undefined)("the case of SIM_CASE breaches no promise", async () => {
  const ran = await run(parseCase(given ?? ""));
  console.log(report(ran));
  expect(ran.breaches).toEqual([]);
});
