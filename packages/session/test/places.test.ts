import { expect, test } from "vitest";
import { Places } from "../src/places.ts";

test("so many go at a time, and the others in the order of coming", async () => {
  const places = new Places(2);
  const order: string[] = [];
  const leaves = new Map<string, () => void>();
  const come = async (name: string): Promise<void> => {
    const leave = await places.take();
    order.push(name);
    leaves.set(name, leave);
  };
  const all = ["a", "b", "c", "d"].map(come);
  await Promise.all(all.slice(0, 2));
  expect(order).toEqual(["a", "b"]);
  leaves.get("b")?.();
  await all[2];
  expect(order).toEqual(["a", "b", "c"]);
  leaves.get("a")?.();
  leaves.get("c")?.();
  await all[3];
  await come("e");
  expect(order).toEqual(["a", "b", "c", "d", "e"]);
});
