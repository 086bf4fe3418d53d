import { expect, test } from "vitest";
import { call, escapes, PROBES } from "./escape.ts";
import { OWN_ENVIRONMENT } from "./escape-environment.ts";
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

const SUBJECTS = [
  { title: "a bubblewrap cell", skip: noBubblewrap },
  {
    title: "a bubblewrap cell of an ordinary user",
    uid: NOBODY,
    skip: noBubblewrap ?? (isRoot ? undefined : "the tests already run as an ordinary user"),
  },
] as const;

for (const subject of SUBJECTS) {
  escapes({ vendor: "bubblewrap", ...subject }, [...PROBES, ...OWN_ENVIRONMENT]);
}

test("a command can be traced in a cell that is for debugging, and in no other", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const base = temporary();
  const { vendor } = driverHere("bubblewrap", optionsIn(base, { ptrace: true }));
  const id = newId();
  const plain = driverHere("bubblewrap", optionsIn(base)).vendor;
  const other = newId();
  const untraced = await linkOf((progress) => plain.create(other, specIn(base), progress));
  expect((await ran(untraced, ...call("ptrace", 0, 0, 0, 0))).stdout).toBe("errno 1");
  await plain.delete(other);
  const link = await linkOf((progress) => vendor.create(id, specIn(base), progress));
  expect((await ran(link, ...call("ptrace", 0, 0, 0, 0))).stdout).toBe("done");
  expect((await ran(link, ...call("bpf", 0, 0, 0))).stdout).toBe("errno 1");
  await vendor.delete(id);
});
