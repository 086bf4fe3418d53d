import { expect, test } from "vitest";
import {
  acquired,
  driverHere,
  linkOf,
  newId,
  noBubblewrap,
  optionsIn,
  specIn,
  temporary,
} from "./machine.ts";

test("a cell that was confined does not come back without, unless the person says so", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const base = temporary();
  const id = newId();
  const spec = specIn(base);
  const { vendor } = driverHere("local", optionsIn(base));
  const link = await linkOf((progress) => vendor.create(id, spec, progress));
  expect(link.boundary).toBe("process");
  await link.close();

  const broken = driverHere("local", optionsIn(base, { bwrap: "/nowhere/bwrap" }));
  const { last } = await acquired((progress) => broken.vendor.get(id, spec, progress));
  expect(last).toMatchObject({
    kind: "failed",
    fault: { code: "unavailable", mend: expect.stringContaining("confine = false") },
  });

  const unconfined = driverHere("local", optionsIn(base, { confine: false }));
  const open = await linkOf((progress) => unconfined.vendor.get(id, spec, progress));
  expect(open.boundary).toBe("none");
  await unconfined.vendor.delete(id);
});
