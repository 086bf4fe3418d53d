import { type Config, create, restore, snapshot, step } from "@dev/core";
import type { Action, Event, Result } from "@dev/protocol";
import { seal, unseal } from "./seal.ts";

/** A core as a host drives it: calls that may trap, and that know nothing of deadlines. */
export interface Instance {
  step(event: Event): readonly Action[];
  snapshot(): Uint8Array;
}

/** The reducer, called in this process. */
export const NATIVE: {
  create(config: Config): Instance;
  restore(bytes: Uint8Array): Result<Instance>;
} = {
  create: (config) => instance(create(config)),
  restore: (bytes) => {
    const text = unseal(bytes);
    if (!text.ok) return text;
    const state = restore(text.value);
    return state.ok ? { ok: true, value: instance(state.value) } : state;
  },
};

function instance(first: ReturnType<typeof create>): Instance {
  let state = first;
  return {
    step: (event) => {
      const next = step(state, event);
      state = next.state;
      return next.actions;
    },
    snapshot: () => seal(snapshot(state)),
  };
}
