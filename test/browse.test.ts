import type { Link, Vendor } from "@dev/cell";
import type { Router } from "@dev/model";
import { type BrowseOp, NO_USAGE, type Outcome } from "@dev/protocol";
import type { Services } from "@dev/session";
import { expect, onTestFinished, test } from "vitest";
import { NOBODY_STOPS, openRoom, prompt, type Room, value } from "./support/session.ts";

const BROWSE: BrowseOp = {
  ...{ kind: "browse", url: "https://a.example/b", method: "GET", headers: [], body: "" },
};
const PAGE: Outcome = {
  kind: "ok",
  result: { kind: "browse", status: 200, headers: [], body: "a page", cutBytes: 0 },
};

/** A model that asks for a page and then ends; no tool of today's lets one do so over a wire. */
function browsing(): Router {
  let count = 0;
  return {
    ask: async (_, __, onAttempt) => {
      await onAttempt(1, null);
      count += 1;
      const calls = count === 1 ? [{ ref: "1", op: BROWSE }] : [];
      const stop = count === 1 ? "calls" : "end";
      const answer = { kind: "reply", text: "", reasoning: "", calls, stop, opaque: "" } as const;
      return { answer, usage: NO_USAGE, costMicroUsd: 0 };
    },
    close: () => undefined,
  };
}

/** A cell that is up, and is asked for nothing. */
const IDLE_CELL: Vendor = {
  name: "idle",
  create: async (cell) => ({
    ok: true,
    value: { kind: "ready", link: { ...LINK, cell } },
  }),
  get: async (cell) => ({ ok: true, value: { kind: "ready", link: { ...LINK, cell } } }),
  hibernate: async () => ({ ok: true, value: { kind: "gone" } }),
  delete: async () => ({ ok: true, value: { kind: "gone" } }),
};
const LINK: Omit<Link, "cell"> = {
  ...{ generation: 1, boundary: "cell", spool: "spool" },
  perform: () => Promise.reject(new Error("a cell was asked for a page")),
  open: () => Promise.reject(new Error("a cell was asked for a channel")),
  acknowledge: () => undefined,
  collect: async () => ({ ok: true, value: undefined }),
  close: async () => undefined,
};
const SPEC = {
  ...{ workspace: "/", variables: {} },
  limits: {
    ...{ commandTimeoutMs: 1, outputBytes: 1, processCount: 1, openFileCount: 1, fileBytes: 1 },
    ...{ memoryBytes: 1, diskBytes: 1 },
  },
};

async function room(): Promise<Room> {
  const opened = await openRoom([]);
  onTestFinished(() => opened.close());
  return opened;
}

async function ended(changed: Partial<Services>): Promise<readonly string[]> {
  const { open, ledger } = await room();
  const driver = await open({
    ...{ router: browsing(), vendor: IDLE_CELL, ...changed },
    spec: async () => ({ ok: true, value: SPEC }),
  });
  value(await driver.run(prompt("look it up"), NOBODY_STOPS));
  await driver.close();
  const entry = (await ledger()).find(({ action }) => action.op.kind === "browse");
  return (entry?.lines ?? []).map(({ state, outcome }) => `${state} ${outcome?.kind ?? ""}`.trim());
}

test("a page is fetched outside the cell, in the ledger like any effect", async () => {
  const asked: unknown[] = [];
  const browse: Services["browse"] = async (op, id) => {
    asked.push([op.url, id]);
    return PAGE;
  };
  expect(await ended({ browse })).toEqual(["minted", "dispatched", "completed ok"]);
  expect(asked).toEqual([["https://a.example/b", expect.any(Number)]]);
});

test("without a network a page is refused, and nothing is dispatched", async () => {
  expect(await ended({ browse: null })).toEqual(["minted", "refused refused"]);
});

test("a rule of the policy denies a page before the network is asked", async () => {
  const browse: Services["browse"] = async () => {
    throw new Error("it was asked for all the same");
  };
  const rules = [{ decision: "deny", ops: ["browse"], layer: "user" }] as const;
  expect(await ended({ browse, rules })).toEqual(["minted", "refused refused"]);
});

test("a page that was asked for when the driver died is unknown to the next", async () => {
  const { open, ledger } = await room();
  const common = { vendor: IDLE_CELL, spec: async () => ({ ok: true, value: SPEC }) as const };
  let reached: () => void = () => undefined;
  const isReached = new Promise<void>((resolve) => {
    reached = resolve;
  });
  const router = browsing();
  const first = await open({
    ...{ ...common, router },
    browse: () => {
      reached();
      return new Promise(() => undefined);
    },
  });
  // It is left as a process that was killed leaves it: nothing of it is ever heard again.
  void first.run(prompt("look it up"), NOBODY_STOPS);
  await isReached;
  const again: Services["browse"] = async () => {
    throw new Error("it was asked for a second time");
  };
  const next = await open({ ...common, router, browse: again });
  value(await next.run(null, NOBODY_STOPS));
  await next.close();
  const entry = (await ledger()).find(({ action }) => action.op.kind === "browse");
  expect(entry?.lines.map(({ state }) => state)).toEqual(["minted", "dispatched", "unknown"]);
});
