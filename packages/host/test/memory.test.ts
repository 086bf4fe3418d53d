import type { Config } from "@dev/core";
import { type Core, openCore, type Session } from "@dev/host";
import type { Action, Event } from "@dev/protocol";
import { expect, test } from "vitest";
import { coreOf } from "../src/core.ts";
import { openWasm } from "../src/wasm.ts";
import { CONFIG, code, ran, says, TIMER, turn, value } from "./notation.ts";
import { sealCore, sealPlanted } from "./sealing.ts";

sealCore();
const PLANTED = sealPlanted();
const MIB = 1024 * 1024;
const CORE_ENDS_IT = "conversationBytes";

test.each([
  ["ASCII", "x", CORE_ENDS_IT],
  ["what JSON escapes", '"', CORE_ENDS_IT],
  ["Latin-1", "é", CORE_ENDS_IT],
  ["Han", "漢", CORE_ENDS_IT],
  ["pairs", "🜁", CORE_ENDS_IT],
  // Two bytes a letter in the engine, and one in what the core counts.
  ["ASCII with one wide letter", "xxxxxxxx✓", "full"],
])("a conversation of %s is filled to its end, and loses nothing", (_, letters, ends) => {
  const core = openCore({ host: "wasm" });
  const session = core.create(CONFIG);
  const letterBytes = Buffer.byteLength(JSON.stringify(letters)) - 2;
  const text = letters.repeat(Math.floor((2.9 * MIB) / letterBytes));
  let action = 1;
  let ended = "";
  for (let id = 1; ended === ""; id++) {
    const stepped = session.step(turn(id, text));
    if (!stepped.ok) ended = stepped.fault.code;
    const ops = stepped.ok ? stepped.value.map(({ op }) => op) : [];
    const done = ops.find((op) => op.kind === "done");
    if (done !== undefined) ended = done.reason.split(":")[0] ?? "";
    const asked = stepped.ok ? stepped.value.find(({ op }) => op.kind === "model") : undefined;
    if (asked !== undefined) value(session.step(says(asked.id, "ok")));
    action = asked?.id ?? action;
    const bytes = value(session.snapshot());
    expect(bytes.length).toBeGreaterThan(2.9 * MIB);
  }
  expect(ended).toBe(ends);
  const bytes = value(session.snapshot());
  expect(bytes.length).toBeGreaterThan(8 * MIB);
  // A small event finds the room that a large one does not.
  expect(value(session.step(turn(99, "/compact")))[0]?.op).toMatchObject({ purpose: "compact" });
  for (const host of ["native", "wasm"] as const) {
    const restored = value(openCore({ host }).restore(bytes));
    expect(Buffer.compare(value(restored.snapshot()), bytes)).toBe(0);
  }
  core.close();
});

const ABLE: Config = {
  ...CONFIG,
  tools: ["exec", "spawn"].map((name) => ({ name, description: "", parameters: "{}" })),
};

test.each(["x", "é", "漢", "\n", "xxxxxxxx✓"])(
  "results that wait in eight agents, in %j, end the turn at its limit on both hosts",
  (letters) => {
    const [native, wasm] = [openCore({ host: "native" }), openCore({ host: "wasm", liveLimit: 1 })];
    const sessions = [native.create(ABLE), wasm.create(ABLE)] as const;
    const step = (event: Event): readonly Action[] => {
      const [a, b] = sessions.map((session) => value(session.step(event)));
      expect(b).toEqual(a);
      return a ?? [];
    };
    const spawn = { kind: "spawn", prompt: "look", agent: "", tools: [] } as const;
    const run = { ...EXEC, argv: ["a"] };
    step(turn(1));
    const asked = step(says(1, "", ...Array.from({ length: 8 }, () => spawn)));
    const known = letters.repeat(Math.floor(65_000 / Buffer.byteLength(letters)));
    let ended = "";
    for (const { id } of asked) {
      const out = step(says(id, "", ...Array.from({ length: 64 }, () => run)));
      for (const call of out.slice(0, 63)) {
        const done = step(ran(call.id, known)).find(({ op }) => op.kind === "done")?.op;
        if (done?.kind === "done") ended = done.reason;
        if (ended !== "") break;
        if (call.id % 40 === 0) saved(sessions, [native, wasm]);
      }
      if (ended !== "") break;
    }
    expect(ended).toMatch(/^conversationBytes: /);
    saved(sessions, [native, wasm]);
    for (const core of [native, wasm]) core.close();
  },
);

/** Holds both sessions to the same snapshot, and each host to restoring it. */
function saved([a, b]: readonly [Session, Session], cores: readonly Core[]): void {
  const bytes = value(a.snapshot());
  expect(Buffer.compare(value(b.snapshot()), bytes)).toBe(0);
  for (const core of cores) {
    const restored = value(core.restore(bytes));
    expect(Buffer.compare(value(restored.snapshot()), bytes)).toBe(0);
    restored.close();
  }
}

const EXEC = {
  kind: "exec",
  cwd: ".",
  env: [],
  stdin: "",
  timeoutMs: 0,
  background: false,
} as const;

test.each(["x", "é", "漢", "🜁", "\u0001", "xxxxxxxx✓"])(
  "without the core's limits, a conversation of %j is `full` at last, can be saved, and goes on",
  (letters) => {
    const limits = { ...CONFIG.limits, conversationBytes: 2 ** 40, messageBytes: 2 ** 30 };
    const core = openCore({ host: "wasm", liveLimit: 1 });
    const session = core.create({ ...CONFIG, limits });
    const text = letters.repeat(Math.floor((2.9 * MIB) / Buffer.byteLength(letters)));
    let answered = "ok";
    for (let id = 1; answered === "ok"; id++) {
      const stepped = session.step(turn(id, text));
      answered = code(stepped);
      const asked = stepped.ok ? stepped.value.find(({ op }) => op.kind === "model") : undefined;
      if (asked !== undefined) value(session.step(says(asked.id, "ok")));
    }
    expect(answered).toBe("full");
    value(session.snapshot());
    expect(code(session.step(TIMER))).toBe("ok");
    expect(code(session.step(turn(99, "/compact")))).toBe("ok");
    core.close();
  },
);

test("a snapshot that the memory has no room for is `full`, and is restored where there is more", () => {
  const limits = { ...CONFIG.limits, conversationBytes: 2 ** 40 };
  const native = openCore({ host: "native" });
  const session = native.create({ ...CONFIG, limits });
  for (let id = 1; id < 30; id++) {
    const [asked] = value(session.step(turn(id, "漢".repeat(MIB))));
    if (asked !== undefined) value(session.step(says(asked.id, "ok")));
  }
  const bytes = value(session.snapshot());
  expect(code(openCore({ host: "wasm" }).restore(bytes))).toBe("full");
  expect(code(native.restore(bytes))).toBe("ok");
});

test("an event that the memory has no room for changes nothing", () => {
  const core = coreOf(openWasm(5000, 9, PLANTED));
  const session = core.create(CONFIG);
  // It keeps 8 MiB more each time.
  let stepped = session.step({ kind: "steer", text: "keep" });
  for (let count = 0; count < 4; count++) stepped = session.step({ kind: "steer", text: "keep" });
  value(stepped);
  const before = value(session.snapshot());
  const large = session.step(turn(1, "x".repeat(3 * MIB)));
  expect(large).toMatchObject({ ok: false, fault: { code: "full" } });
  expect(value(session.snapshot())).toEqual(before);
  expect(value(session.step(turn(1, "x")))).toHaveLength(1);
  expect(code(session.step(TIMER))).toBe("ok");
  core.close();
});
