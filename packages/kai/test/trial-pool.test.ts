import { expect, test } from "vitest";
import { Pool } from "../src/trial/pool.ts";

const NEVER = new AbortController().signal;

test("whoever waits for a thing that cannot be made hears of it, and the pool comes to rest", async () => {
  const over = new AbortController();
  const pool = new Pool(
    2,
    () =>
      new Promise<string>((_, reject) => {
        over.signal.addEventListener("abort", () => reject(new Error("closed")), { once: true });
      }),
  );
  // Two are being made, and the others wait for one of them.
  const uses = [1, 2, 3, 4, 5].map(() => pool.use(async (item) => item, over.signal));
  const ends = Promise.allSettled(uses);
  over.abort(new Error("closed"));
  await pool.idle();
  expect((await ends).map(({ status }) => status)).toEqual(Array(5).fill("rejected"));
});

test("one that waited makes what another could not", async () => {
  let count = 0;
  const pool = new Pool(1, async (index) => {
    count += 1;
    if (count === 1) throw new Error("the first cannot");
    return `made ${index}`;
  });
  const [first, second, third] = await Promise.allSettled(
    [1, 2, 3].map(() => pool.use(async (item) => item, NEVER)),
  );
  expect(first?.status).toBe("rejected");
  expect([second, third]).toEqual([
    { status: "fulfilled", value: "made 0" },
    { status: "fulfilled", value: "made 0" },
  ]);
});
