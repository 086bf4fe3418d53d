import fc from "fast-check";
import { expect, test } from "vitest";
import { backoff, retryAfterMs } from "../src/backoff.ts";
import { display } from "../src/display.ts";
import { openRouter, ROUTER_LIMITS } from "../src/index.ts";
import { startScripted } from "../src/scripted.ts";
import { askOf, faultOf } from "./endpoint.ts";

const options = { sleep: async () => {}, random: () => 0, limits: ROUTER_LIMITS };
const never = new AbortController().signal;
const provider = (baseUrl: string) => ({ wire: "openai-chat", baseUrl, key: null }) as const;

async function ask(router: ReturnType<typeof openRouter>, model: string) {
  return router.ask(
    askOf({ model }),
    () => {},
    async () => {},
    never,
  );
}

test.each([
  ["other/model", "no provider of that name", "there are one, two"],
  ["toString/model", "no provider of that name", "there are one, two"],
  ["model", "not the name of a model", "there are one, two"],
  ["/model", "not the name of a model", ""],
  ["one/", "not the name of a model", ""],
  ["two/model", "the provider's base URL is none", "http or https"],
])("%s is a fault that says what there is", async (model, message, mend) => {
  const router = openRouter(
    { one: provider("http://127.0.0.1:1"), two: provider("file:///") },
    options,
  );
  const fault = faultOf(await ask(router, model));
  expect(fault).toMatchObject({ code: "config", message });
  expect(fault.mend).toContain(mend);
  router.close();
});

test("a password in a base URL is not taken, nor shown", async () => {
  const router = openRouter({ one: provider("http://me:secret@127.0.0.1:1") }, options);
  expect(JSON.stringify(await ask(router, "one/x"))).not.toContain("secret");
  router.close();
});

test("a query of the base URL is kept, and a model may have slashes", async () => {
  await using scripted = disposable(await startScripted([{ reply: { text: "hi" } }]));
  const router = openRouter({ one: provider(`${scripted.url}?version=2`) }, options);
  expect((await ask(router, "one/a/b")).answer.kind).toBe("reply");
  expect(JSON.parse(scripted.requests[0]?.body ?? "")).toMatchObject({ model: "a/b" });
  router.close();
});

test("closing a router ends its asks", async () => {
  await using scripted = disposable(await startScripted([{ fault: { kind: "hang" } }]));
  const router = openRouter({ one: provider(scripted.url) }, options);
  const asked = ask(router, "one/x");
  await scripted.request(1);
  router.close();
  expect((await asked).answer.kind).toBe("cancelled");
});

test("what a delta's or a try's listener throws reaches the asker", async () => {
  await using scripted = disposable(await startScripted([{ reply: { text: "hi" } }]));
  const router = openRouter({ one: provider(scripted.url) }, options);
  const boom = () => {
    throw new Error("boom");
  };
  const asked = router.ask(askOf({ model: "one/x" }), boom, async () => {}, never);
  await expect(asked).rejects.toThrow("boom");
  const announced = router.ask(
    askOf({ model: "one/x" }),
    () => {},
    async () => boom(),
    never,
  );
  await expect(announced).rejects.toThrow("boom");
  expect(scripted.requests).toHaveLength(1);
  router.close();
});

test("a backoff ends, whatever is asked of it", () => {
  const wait = fc.option(fc.nat(200_000));
  fc.assert(
    fc.property(
      fc.array(wait, { minLength: 4, maxLength: 4 }),
      fc.float({ min: 0, max: 1, noNaN: true }),
      (asked, random) => {
        let spentMs = 0;
        let count = 1;
        for (; ; count++) {
          const plan = backoff(count, spentMs, asked[count - 1] ?? null, random, ROUTER_LIMITS);
          if (plan.kind === "give_up") break;
          expect(plan.waitMs).toBeGreaterThanOrEqual(asked[count - 1] ?? 0);
          spentMs += plan.waitMs;
        }
        expect(count).toBeLessThanOrEqual(ROUTER_LIMITS.attemptCount);
        expect(spentMs).toBeLessThanOrEqual(ROUTER_LIMITS.retryTotalMs);
      },
    ),
  );
});

test.each([
  [{ "retry-after": "3" }, 3_000],
  [{ "retry-after": "0.5" }, 500],
  [{ "retry-after-ms": "1500", "retry-after": "2" }, 1_500],
  [
    { "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", date: "Wed, 21 Oct 2026 07:28:00 GMT" },
    30_000,
  ],
  [{ "retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", date: "Wed, 21 Oct 2026 07:29:00 GMT" }, 0],
  [{ "retry-after": "Wed, 21 Oct 2026 07:28:00 GMT" }, null],
  [{ "retry-after": "soon" }, null],
  [{}, null],
])("%j asks to wait %s ms", (headers, waitMs) => {
  expect(retryAfterMs(headers)).toBe(waitMs);
});

test("what is shown of a provider's text controls no terminal and has no key in it", () => {
  expect(display("a\u001b[31mb\r\n\u202Ec k-1 d", "k-1")).toBe("a [31mb c [key] d");
  expect(display("abc", "")).toBe("abc");
  expect(display(`${"x".repeat(298)}secret`, "secret")).not.toContain("se");
});

function disposable<T extends { close(): Promise<void> }>(value: T): T & AsyncDisposable {
  return { ...value, [Symbol.asyncDispose]: () => value.close() };
}
