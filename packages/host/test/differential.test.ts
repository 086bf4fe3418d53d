import { openCore, type Session } from "@dev/host";
import type { Action, Event, TurnEvent } from "@dev/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { configs, eventOf, moves } from "./arbitrary.ts";
import { CONFIG, turn, value } from "./notation.ts";
import { sealCore } from "./sealing.ts";

sealCore();

test("whatever happens, both hosts answer the same actions and write the same bytes", () => {
  const hosts = [openCore({ host: "native" }), openCore({ host: "wasm" })] as const;
  const seen = new Set<string>();
  fc.assert(
    fc.property(configs, moves, fc.infiniteStream(fc.nat({ max: 4 })), (config, made, chance) => {
      let [native, wasm]: [Session, Session] = [hosts[0].create(config), hosts[1].create(config)];
      const history: Event[] = [];
      const actions: Action[] = [];
      for (const move of made) {
        const event = eventOf(move, history, actions);
        const answered = value(native.step(event));
        // As text, so that the order of fields counts as well.
        expect(JSON.stringify(value(wasm.step(event)))).toBe(JSON.stringify(answered));
        const [left, right] = [value(native.snapshot()), value(wasm.snapshot())];
        expect(Buffer.compare(left, right)).toBe(0);
        history.push(event);
        actions.push(...answered);
        for (const { op } of answered) seen.add(op.kind === "model" ? op.purpose : op.kind);
        if (answered.some(({ agent }) => agent > 0)) seen.add("sub-agent");
        if (chance.next().value > 0) continue;
        // Each host goes on from what the other wrote.
        native.close();
        wasm.close();
        native = value(hosts[0].restore(right));
        wasm = value(hosts[1].restore(left));
      }
      native.close();
      wasm.close();
    }),
    { numRuns: 250 },
  );
  // It was of use only if it got so far.
  const wanted = [
    "turn",
    "compact",
    "sub-agent",
    "exec",
    "question",
    "tool",
    "done",
    "emit",
    "save",
  ];
  expect([...seen]).toEqual(expect.arrayContaining(wanted));
  for (const core of hosts) core.close();
});

test("snapshots of long conversations, which cross in pieces, are the same as well", () => {
  const hosts = [openCore({ host: "native" }), openCore({ host: "wasm" })] as const;
  const [native, wasm] = [hosts[0].create(CONFIG), hosts[1].create(CONFIG)];
  const texts = ["x".repeat(1 << 20), `"messages":[${"✓".repeat(1 << 18)}`, 'é\\"\n'.repeat(9999)];
  for (const [index, text] of texts.entries()) {
    const { id } = turn(index + 1) as TurnEvent;
    for (const event of [turn(id, text), { kind: "cancel", turn: id } as const]) {
      expect(value(wasm.step(event))).toEqual(value(native.step(event)));
    }
    const [left, right] = [value(native.snapshot()), value(wasm.snapshot())];
    expect(Buffer.compare(left, right)).toBe(0);
    const crossed = value(value(hosts[1].restore(left)).snapshot());
    expect(Buffer.compare(crossed, left)).toBe(0);
  }
  for (const core of hosts) core.close();
});
