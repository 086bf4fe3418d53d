import { caseText, hostOf, parseCase, parseHost, report, run } from "@dev/sim";
import { expect, test } from "vitest";

const given = process.env.SIM_CASE;
const host = process.env.SIM_HOST;

test("one case, that of SIM_CASE where it is set, breaches no promise", async () => {
  const told = parseCase(given ?? "exec/7/driver@12+agent@40");
  const ran = await run(host === undefined ? told : { ...told, host: parseHost(host) });
  if (given !== undefined) console.log(report(ran));
  expect(ran.breaches).toEqual([]);
});

test.each(["exec/7/driver@12+agent@40", "exec/7/", "exec/7/driver@12/native"])(
  "%s is read and written as it is",
  (text) => {
    expect(caseText(parseCase(text))).toBe(text);
  },
);

test("the seed says which host runs a case, unless the case does", () => {
  expect([4, 5, 6, 7].map(hostOf)).toEqual(["native", "native", "wasm", "wasm"]);
  expect(parseCase("exec/7/driver@12/native").host).toBe("native");
});
