import { create, restore, snapshot, step } from "@dev/core";
import { runUnwatched, runWithin } from "./deadline.ts";
import type { Host, Instance } from "./instance.ts";
import { seal, unseal } from "./seal.ts";

/** The reducer, called in this process. */
export function openNative(deadlineMs: number): Host {
  const instance = (first: ReturnType<typeof create>): Instance => {
    let state = first;
    return {
      step: (event) =>
        runWithin(deadlineMs, () => {
          const next = step(state, event);
          state = next.state;
          return next.actions;
        }),
      // Not watched, which costs more than all of it: it only writes down what a step has made.
      snapshot: () => runUnwatched(() => seal(Buffer.from(snapshot(state)))),
      close: () => {},
    };
  };
  return {
    create: (config) => instance(create(config)),
    restore: (bytes) => {
      const text = unseal(bytes);
      if (!text.ok) return text;
      const state = restore(text.value.toString("utf8"));
      return state.ok ? { ok: true, value: instance(state.value) } : state;
    },
  };
}
