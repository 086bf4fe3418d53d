import { CRASH_KINDS, SCENARIOS, caseText, sweep, report } from "@dev/sim";
import { test } from "vitest";

test("scratch", async () => {
  const seeds = (process.env["S"] ?? "1,2").split(",").map(Number);
  const only = process.env["ONLY"];
  const kinds = process.env["K"] ? process.env["K"].split(",") : CRASH_KINDS;
  for (const { name } of SCENARIOS) {
    if (only && !only.split(",").includes(name)) continue;
    for (const seed of seeds) {
      const t = performance.now();
      const swept = await sweep({ scenario: name, seed, kinds: kinds as never, pairCount: Number(process.env["P"] ?? 0) });
      const byKind = new Map<string, string[]>();
      for (const ran of swept.failed) {
        const b = ran.breaches[0]!;
        const key = `${b.promise}: ${b.what.slice(0,200).replace(/\d+/g, "N")}`;
        byKind.set(key, [...(byKind.get(key) ?? []), caseText(ran.case)]);
      }
      console.log(name, seed, swept.runCount, "runs", swept.failed.length, "failed", Math.round(performance.now() - t), "ms",
        [...byKind].map(([k, v]) => `\n     ${v.length}x ${k}\n        ${v.slice(0, 4)}`).join(""));
    }
  }
}, 600_000);
