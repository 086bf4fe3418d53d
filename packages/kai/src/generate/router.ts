import type { Ask, Delta } from "@dev/model";
import type { Fault } from "@dev/protocol";
import type { Asked, Asker, Effort, Prompt, Rate } from "./asker.ts";

/** What is needed of a router. */
export type AskRouter = {
  ask(
    ask: Ask,
    onDelta: (delta: Delta) => void,
    onAttempt: (attempt: number, after: Fault | null) => Promise<void>,
    signal: AbortSignal,
  ): Promise<Asked>;
};

/** Prices, in US dollars per million tokens, as the catalog has them. */
export type Prices = {
  readonly inputPrice: number;
  readonly cacheWritePrice: number;
  readonly outputPrice: number;
  readonly longInputTimes: number;
  readonly longOutputTimes: number;
};

/**
 * Asks a model, `provider/model`, through a router; its prices are what a call without usage is
 * billed by.
 */
export function routerAsker(router: AskRouter, model: string, prices: Prices): Asker {
  return {
    model,
    ceiling: ceilingOf(prices),
    ask(prompt, effort, onHeard, signal) {
      return router.ask(
        {
          model,
          effort: EFFORT[effort],
          prelude: preludeOf(prompt),
          messages: prompt.messages,
          tools: [],
          format: prompt.schema,
        },
        ({ text }) => onHeard(text),
        async () => {},
        signal,
      );
    },
  };
}

const EFFORT: Readonly<Record<Effort, Ask["effort"]>> = { low: "low", full: "high" };

/** Dollars per million tokens are millionths of a dollar per token. */
function ceilingOf(prices: Prices): Rate {
  const input = Math.max(prices.inputPrice, prices.cacheWritePrice);
  return {
    input: input * Math.max(1, prices.longInputTimes),
    output: prices.outputPrice * Math.max(1, prices.longOutputTimes),
  };
}

/**
 * The schema goes with the ask, and is told in words besides: not every server keeps to one, or takes it.
 * Answers are read strictly all the same.
 */
function preludeOf({ prelude, schema }: Prompt): string {
  return `${prelude}\n\nThe JSON schema of the answer:\n${JSON.stringify(schema.schema)}`;
}
