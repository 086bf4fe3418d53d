import type { Cost } from "../help.ts";
import type { Heard } from "./call.ts";

/** Adds up what calls cost. */
export interface Tally {
  readonly cost: Cost;
  add(heard: Heard): void;
}

export function openTally(): Tally {
  let [inputTokens, outputTokens, microUsd] = [0, 0, 0];
  return {
    get cost() {
      return { inputTokens, outputTokens, usd: microUsd / 1e6 };
    },
    add({ usage, costMicroUsd }) {
      inputTokens += usage.inputTokens;
      outputTokens += usage.outputTokens;
      microUsd += costMicroUsd;
    },
  };
}
