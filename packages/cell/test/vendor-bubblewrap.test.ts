import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { vendorContract } from "./contract.ts";
import {
  driverHere,
  isRoot,
  linkOf,
  NOBODY,
  newId,
  noBubblewrap,
  optionsIn,
  ran,
  specIn,
  temporary,
} from "./machine.ts";

vendorContract({
  title: "a bubblewrap cell",
  vendor: "bubblewrap",
  boundary: "cell",
  skip: noBubblewrap,
});

vendorContract({
  title: "a bubblewrap cell of an ordinary user",
  vendor: "bubblewrap",
  boundary: "cell",
  uid: NOBODY,
  skip: noBubblewrap ?? (isRoot ? undefined : "the tests already run as an ordinary user"),
});

test("a cell works in a directory whatever its name", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const base = join(temporary(), "a b\tc\\040 #d \"e\" 'f'\n\u00a0é");
  mkdirSync(base);
  const { vendor } = driverHere("bubblewrap", optionsIn(base));
  const id = newId();
  const spec = specIn(base);
  const link = await linkOf((progress) => vendor.create(id, spec, progress));
  expect(await ran(link, "touch", "made")).toMatchObject({ code: 0 });
  expect(existsSync(join(spec.workspace, "made"))).toBe(true);
  await vendor.delete(id);
});
