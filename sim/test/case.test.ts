import { parseCase, report, run } from "@dev/sim";
import { expect, test } from "vitest";

const given = process.env.SIM_CASE;

test("one case, that of SIM_CASE where it is set, breaches no promise", async () => {
  const ran = await run(parseCase(given ?? "exec/7/driver@12+agent@40"));
  if (given !== undefined) console.log(report(ran));
  expect(ran.breaches).toEqual([]);
});
