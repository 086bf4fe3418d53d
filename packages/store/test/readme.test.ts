import { type Event, sessionId, turnId } from "@dev/protocol";
import { type Entry, openSqlite } from "@dev/store";
import { expect, test } from "vitest";

const path = ":memory:";
const createdMs = 1_700_000_000_000;
const id = sessionId(createdMs, new Uint8Array(10));

test("the README's example does what it says", async () => {
  const opened = await openSqlite(path);
  if (!opened.ok) throw new Error(opened.fault.message);
  const store = opened.value;
  await store.create({
    id,
    createdMs,
    directory: "/home/me",
    vendor: "local",
    model: "a/b",
    config: "{}",
  });
  const claim = await store.claim(id, "process 1", () => false, createdMs);
  if (!claim.ok) throw new Error(claim.fault.message);
  const event: Event = { kind: "turn", id: turnId(1), prompt: "hello", images: [], mode: "ask" };
  const entry: Entry = { expect: 0, event, minted: [], state: "active", atMs: createdMs };
  const appended = await store.append(claim.value, entry);
  const again = await store.append(claim.value, entry);
  store.close();
  expect(appended.ok).toBe(true);
  expect(again).toMatchObject({ ok: false, fault: { code: "fenced" } });
});
