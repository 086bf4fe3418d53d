import { readFileSync } from "node:fs";
import { crc32 } from "node:zlib";
import { type Config, SNAPSHOT_VERSION } from "@dev/core";
import { type Core, type HostOptions, openCore, type Session } from "@dev/host";
import { EVENT_LIMIT_BYTES, type Event, turnId } from "@dev/protocol";
import fc from "fast-check";
import { describe, expect, type TestContext, test } from "vitest";
import { CONFIG, code, ran, says, TIMER, turn, value, WORK, work } from "./notation.ts";

/** A host under test: it opens cores, and sessions that break in the ways that the tests need. */
export type Subject = {
  open(): Core;
  /** A session of its own whose core traps whenever it is called. */
  trapping(): Session;
  /** A session of its own whose core never answers; `deadlineMs` is what its calls may take. */
  looping(deadlineMs: number): Session;
  /**
   * A session that makes this call in the middle of each call of its own; or the reason for which no
   * call can be made during another on this host.
   */
  calling(call: (session: Session) => void): Session | string;
};

/** Tests that hold of every host. */
export function hostConformance(name: HostOptions["host"], subject: Subject): void {
  describe(`${name}: sessions`, () => sessions(subject));
  describe(`${name}: faults`, () => faults(name, subject));
  describe(`${name}: limits`, () => limits(subject));
  describe(`${name}: traps`, () => traps(subject));
  describe(`${name}: snapshots`, () => snapshots(subject));
  describe(`${name}: damage`, () => damage(subject));
}

function sessions({ open }: Subject): void {
  test("a session answers an event with its actions", () => {
    const core = open();
    const actions = work(core.create(CONFIG), [turn(1, "hello"), says(1, "hi")]);
    expect(actions.map(({ id, turn: of, op }) => [id, of, op.kind])).toEqual([
      [1, 1, "model"],
      [2, 1, "emit"],
      [3, 1, "save"],
      [4, 1, "done"],
    ]);
    core.close();
  });

  test("sessions of one core know nothing of each other", () => {
    const core = open();
    const [a, b] = [core.create(CONFIG), core.create(CONFIG)];
    const alone = work(open().create(CONFIG), WORK);
    const mixed = WORK.map((event) => [value(a.step(event)), value(b.step(event))]);
    expect(mixed.flatMap(([actions]) => actions ?? [])).toEqual(alone);
    expect(mixed.flatMap(([, actions]) => actions ?? [])).toEqual(alone);
    core.close();
  });

  test("two runs give the same actions and the same bytes", () => {
    const core = open();
    const [a, b] = [core.create(CONFIG), core.create(CONFIG)];
    for (const event of WORK) {
      expect(value(a.step(event))).toEqual(value(b.step(event)));
      expect(value(a.snapshot())).toEqual(value(b.snapshot()));
    }
    core.close();
  });

  test("the order in which an event's fields were written does not matter", () => {
    const core = open();
    const [a, b] = [core.create(CONFIG), core.create(CONFIG)];
    for (const event of WORK) {
      value(a.step(event));
      value(b.step(mirrored(event) as Event));
    }
    expect(value(b.snapshot())).toEqual(value(a.snapshot()));
    core.close();
  });

  test("an event that is given again answers no actions and changes nothing", () => {
    const session = open().create(CONFIG);
    for (const event of WORK) {
      value(session.step(event));
      const before = value(session.snapshot());
      expect(value(session.step(event))).toEqual([]);
      expect(value(session.snapshot())).toEqual(before);
    }
  });

  test("what a caller does to an event afterwards does not reach the core", () => {
    const session = open().create(CONFIG);
    const event = { kind: "turn", id: turnId(1), prompt: "hello", images: [], mode: "ask" } as {
      prompt: string;
    } & Event;
    value(session.step(event));
    const before = value(session.snapshot());
    event.prompt = "another";
    expect(value(session.snapshot())).toEqual(before);
  });
}

function faults(name: HostOptions["host"], { open, calling }: Subject): void {
  test("a closed session answers `handle`, and goes on doing so", () => {
    const session = open().create(CONFIG);
    session.close();
    session.close();
    expect([code(session.step(turn(1))), code(session.snapshot())]).toEqual(["handle", "handle"]);
  });

  test("a closed core closes its sessions, restored ones and those that come late", () => {
    const core = open();
    const early = core.create(CONFIG);
    const bytes = value(early.snapshot());
    const restored = value(core.restore(bytes));
    core.close();
    const late = [core.create(CONFIG), value(core.restore(bytes))];
    for (const session of [early, restored, ...late]) {
      expect(code(session.step(turn(1)))).toBe("handle");
    }
  });

  test.each([
    [null, ""],
    [[], ""],
    [{}, "kind"],
    [{ kind: "nothing" }, "kind"],
    [{ ...turn(1), id: 1.5 }, "id"],
    [{ ...turn(1), id: -1 }, "id"],
    [{ ...turn(1), prompt: 7 }, "prompt"],
    [{ ...turn(1), prompt: "half \ud800" }, "prompt"],
    [{ ...turn(1), mode: "all" }, "mode"],
    [{ ...ran(3, ""), outcome: { kind: "fine" } }, "outcome.kind"],
  ])("the malformed event %j changes nothing, and the fault names its part", (event, subject) => {
    const session = open().create(CONFIG);
    value(session.step(turn(1)));
    const before = value(session.snapshot());
    const stepped = session.step(event as unknown as Event);
    expect(stepped).toMatchObject({ ok: false, fault: { code: "malformed", subject } });
    expect(value(session.snapshot())).toEqual(before);
    expect(value(session.step(says(1, "hi")))).toHaveLength(3);
  });

  test.each([
    [null, "a config is an object"],
    [7, "a config is an object"],
    [{}, "a config has lists of tools and agents, and limits"],
    [{ ...CONFIG, model: 5 }, "a config's model is missing or of another type"],
    [{ ...CONFIG, windowTokens: -5 }, "a config's windowTokens is missing or of another type"],
    [{ ...CONFIG, agents: [{}] }, "a config's agents is missing or of another type"],
  ])("%j is no config, and no session is made of it", (config, flaw) => {
    const core = open();
    expect(() => core.create(config as Config)).toThrow(new TypeError(flaw));
  });

  test.each([null, undefined, "DEVS", 5, {}, []])("%j is no snapshot's bytes", (bytes) => {
    const core = open();
    expect(() => core.restore(bytes as Uint8Array)).toThrow(TypeError);
  });

  test.each([0, -1, Number.NaN, Number.NEGATIVE_INFINITY])(
    "a deadline of %d is a RangeError",
    (deadlineMs) => {
      expect(() => openCore({ host: name, deadlineMs })).toThrow(RangeError);
    },
  );

  test("a call made during another answers `busy`, and harms neither", (context: TestContext) => {
    const seen: string[] = [];
    const session = calling((same) => seen.push(code(same.step(TIMER)), code(same.snapshot())));
    if (typeof session === "string") context.skip(`no call can be made: ${session}`);
    value(session.step(turn(1)));
    value(session.snapshot());
    expect(seen).toEqual(["busy", "busy", "busy", "busy"]);
  });

  test("a session that is closed during its own call stays closed", (context: TestContext) => {
    const session = calling((same) => same.close());
    if (typeof session === "string") context.skip(`no call can be made: ${session}`);
    session.step(turn(1));
    expect(code(session.step(TIMER))).toBe("handle");
  });
}

function limits({ open }: Subject): void {
  test.each(["x", "✓", "🜁"])("an event over its limit, in %s, changes nothing", (letter) => {
    const session = open().create(CONFIG);
    const before = value(session.snapshot());
    const room = EVENT_LIMIT_BYTES / Buffer.byteLength(letter);
    const stepped = session.step(turn(1, letter.repeat(room + 1)));
    expect(code(stepped)).toBe("full");
    expect(value(session.snapshot())).toEqual(before);
    expect(value(session.step(turn(1, "short")))).toHaveLength(1);
  });

  test("an event of very many small parts is over its limit as well", () => {
    const session = open().create(CONFIG);
    const choices = new Array<string>(EVENT_LIMIT_BYTES / 4 + 1).fill("");
    const event = { kind: "reply", id: 1, text: "", choices } as unknown as Event;
    expect(code(session.step(event))).toBe("full");
  });

  test("an event below its limit and over one of the core's is answered by the core", () => {
    const session = open().create(CONFIG);
    const actions = value(session.step(turn(1, "x".repeat(EVENT_LIMIT_BYTES - 1000))));
    expect(actions.map(({ op }) => op.kind)).toEqual(["save", "done"]);
  });
}

function traps({ open, trapping, looping }: Subject): void {
  test("a trap answers `panic`, and each later call `poison`", () => {
    const session = trapping();
    expect(code(session.step(turn(1)))).toBe("panic");
    expect([code(session.step(TIMER)), code(session.snapshot())]).toEqual(["poison", "poison"]);
    expect(code(trapping().snapshot())).toBe("panic");
  });

  test("a malformed event does not reach a core, and so does not trap", () => {
    expect(code(trapping().step({ kind: "x" } as unknown as Event))).toBe("malformed");
  });

  test("a trapped session that is closed answers `handle`", () => {
    const session = trapping();
    session.step(TIMER);
    session.close();
    expect(code(session.step(TIMER))).toBe("handle");
  });

  test("a call that does not end is stopped at its deadline, and its session with it", () => {
    const session = looping(50);
    expect(code(session.step(turn(1)))).toBe("handle");
    expect([code(session.step(TIMER)), code(session.snapshot())]).toEqual(["handle", "handle"]);
  });

  test("one session's trap or deadline leaves a hundred others stepping", () => {
    const core = open();
    const others = Array.from({ length: 100 }, () => core.create(CONFIG));
    const expected = work(core.create(CONFIG), WORK);
    const seen = others.map((session) => work(session, WORK.slice(0, 3)));
    expect(code(trapping().step(TIMER))).toBe("panic");
    expect(code(looping(20).step(TIMER))).toBe("handle");
    others.forEach((session, index) => {
      expect([...(seen[index] ?? []), ...work(session, WORK.slice(3))]).toEqual(expected);
    });
    core.close();
  });
}

function snapshots({ open }: Subject): void {
  test("a session that is restored at any step goes on as it would have", () => {
    const core = open();
    const session = core.create(CONFIG);
    for (const event of WORK) {
      const bytes = value(session.snapshot());
      const restored = value(core.restore(bytes));
      expect(value(restored.snapshot())).toEqual(bytes);
      expect(value(restored.step(event))).toEqual(value(session.step(event)));
      expect(value(restored.snapshot())).toEqual(value(session.snapshot()));
      restored.close();
    }
    core.close();
  });

  test("another core restores it too, from bytes that lie anywhere in a buffer", () => {
    const session = open().create(CONFIG);
    work(session, WORK.slice(0, 3));
    const bytes = value(session.snapshot());
    const wide = new Uint8Array(bytes.length + 7);
    wide.set(bytes, 3);
    const restored = value(open().restore(wide.subarray(3, 3 + bytes.length)));
    expect(work(restored, WORK.slice(3))).toEqual(work(session, WORK.slice(3)));
  });

  // Each file was written once, by a release that wrote that version, and is never written again.
  const versions = Array.from({ length: SNAPSHOT_VERSION }, (_, index) => index + 1);
  test.each(versions)("a snapshot of version %i is read, and goes on", (version) => {
    const bytes = readFileSync(new URL(`version-${version}.snapshot`, import.meta.url));
    const session = value(open().restore(bytes));
    expect(work(session, WORK.slice(5)).map(({ id, op }) => [id, op.kind])).toEqual([
      [5, "model"],
      [6, "save"],
      [7, "emit"],
      [8, "save"],
      [9, "done"],
      [10, "model"],
      [11, "save"],
      [12, "done"],
    ]);
    const whole = open().create(CONFIG);
    work(whole, WORK);
    expect(value(session.snapshot())).toEqual(value(whole.snapshot()));
  });
}

function damage({ open }: Subject): void {
  const saved = (): Uint8Array => {
    const session = open().create(CONFIG);
    work(session, WORK.slice(0, 4));
    return value(session.snapshot());
  };

  test("every flipped bit of a snapshot is found", () => {
    const bytes = saved();
    const core = open();
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const damaged = new Uint8Array(bytes);
      damaged[bit >> 3] = (damaged[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      const restored = core.restore(damaged);
      if (restored.ok) throw new Error(`bit ${bit} was missed`);
    }
  });

  test("every cut of a snapshot is found, and so is what follows it", () => {
    const bytes = saved();
    const core = open();
    for (let length = 0; length < bytes.length; length++) {
      expect(code(core.restore(bytes.subarray(0, length)))).toBe("malformed");
    }
    expect(code(core.restore(Buffer.concat([bytes, Buffer.from([0])])))).toBe("malformed");
  });

  test("other bytes are no snapshot", () => {
    const core = open();
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        expect(code(core.restore(bytes))).toBe("malformed");
      }),
    );
  });

  test("a snapshot of a newer release is refused: by its frame, and by what is in it", () => {
    const core = open();
    const framed = Buffer.from(saved());
    framed.writeUInt32LE(2, 4);
    expect(code(core.restore(framed))).toBe("newer_version");
    const [now, next] = [SNAPSHOT_VERSION, SNAPSHOT_VERSION + 1];
    const held = resealed(saved(), `"version":${now}`, `"version":${next}`);
    expect(code(core.restore(held))).toBe("newer_version");
  });

  test("a sealed text that is no state is refused", () => {
    expect(code(open().restore(resealed(saved(), '"phase"', '"phrase"')))).toBe("malformed");
    expect(code(open().restore(resealed(saved(), "{", "[")))).toBe("malformed");
  });

  test.each([
    ["a text where a flag stands", '"dirty":true', '"dirty":"x"'],
    ["a negative counter", /"nextAction":\d+/, '"nextAction":-1'],
    ["a part that none has", "{", '{"dirty":"x",'],
    ["a million brackets in front", "{", `${"[".repeat(1_000_000)}{`],
    ["a million objects in it", '"state":{', `"state":{"deep":${'{"a":'.repeat(1_000_000)}`],
  ])("a sealed text with %s is refused", (_, from, to) => {
    expect(code(open().restore(resealed(saved(), from, to)))).toBe("malformed");
  });
}

/** A snapshot whose text is changed, with the checksum of what it now says. */
function resealed(bytes: Uint8Array, from: string | RegExp, to: string): Uint8Array {
  const text = Buffer.from(bytes.subarray(16)).toString("utf8");
  expect(text).toMatch(from);
  const body = Buffer.from(text.replace(from, to));
  const head = Buffer.from(bytes.subarray(0, 16));
  head.writeUInt32LE(crc32(body), 8);
  head.writeUInt32LE(body.length, 12);
  return Buffer.concat([head, body]);
}

/** An equal value whose objects have their fields in another order, and one more. */
function mirrored(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(mirrored);
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).map(([name, part]) => [name, mirrored(part)]);
  return Object.fromEntries([["extra", 1], ...fields.reverse()]);
}
