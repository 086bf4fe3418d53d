import type { Answered, Ask, Router } from "@dev/model";
import type { CallOp, Fault, ModelAnswer } from "@dev/protocol";
import { fault, NO_USAGE } from "@dev/protocol";
import type { Party, Steps } from "./steps.ts";
import type { World } from "./world.ts";

/** What the model says once: text, and calls. */
export type Line = { readonly text: string; readonly calls: readonly CallOp[] };

/** What goes wrong with the model, once, where it was to say a line. */
export type Hitch = {
  readonly at: number;
  /** `retried`: nothing came, and it was tried again; `failed`: it came to nothing; `cut`: midway. */
  readonly kind: "retried" | "failed" | "cut";
};

/**
 * A model that has learnt its lines: which one it says follows from how often it has spoken in the
 * conversation that it is sent, so that asking again after a crash gets the same reply.
 */
export class Actor {
  readonly #lines: readonly Line[];
  readonly #hitches: Set<Hitch>;
  readonly #world: World;
  readonly #steps: Steps;

  constructor(lines: readonly Line[], hitches: readonly Hitch[], world: World, steps: Steps) {
    this.#lines = lines;
    this.#hitches = new Set(hitches);
    this.#world = world;
    this.#steps = steps;
  }

  /** The router as one driver's process has it. `hears`: whether what it is sent is looked at. */
  router(driver: Party, hears: () => boolean): Router {
    const steps = this.#steps;
    return {
      ask: async (ask, onDelta, onAttempt, signal) => {
        if (hears()) this.#world.hear(ask);
        const position = positionIn(ask);
        const line = this.#lines[position] ?? { text: "done", calls: [] };
        const hitch = this.#takeHitch(position);
        await onAttempt(1, null);
        await steps.pass(driver, `asks the model for line ${position}`);
        if (hitch?.kind === "retried") {
          await onAttempt(2, OVERLOADED);
          await steps.pass(driver, `asks the model again for line ${position}`);
        }
        if (hitch?.kind === "failed") return answered(failed(OVERLOADED, ""));
        if (signal.aborted) return answered({ kind: "cancelled", partial: "" });
        onDelta({ kind: "text", text: line.text });
        await steps.pass(driver, `hears some of line ${position}`, SPEECH_MS);
        if (signal.aborted) return answered({ kind: "cancelled", partial: line.text });
        if (hitch?.kind === "cut") return answered(failed(CUT, line.text));
        return answered(replied(line, position));
      },
      close: () => undefined,
    };
  }

  #takeHitch(position: number): Hitch | undefined {
    const hitch = [...this.#hitches].find(({ at }) => at === position);
    if (hitch !== undefined) this.#hitches.delete(hitch);
    return hitch;
  }
}

/** How long a line takes to say. */
const SPEECH_MS = 60;

const OVERLOADED = fault("overloaded", "the provider has too much to do");
const CUT = fault("cut", "the stream ended before the reply did");

function positionIn({ messages }: Ask): number {
  return messages.filter(({ kind }) => kind === "assistant").length;
}

function replied({ text, calls }: Line, position: number): ModelAnswer {
  return {
    kind: "reply",
    text,
    reasoning: "",
    calls: calls.map((op, index) => ({ ref: `line${position}-${index}`, op })),
    stop: calls.length === 0 ? "end" : "calls",
  };
}

function failed(why: Fault, partial: string): ModelAnswer {
  return { kind: "failed", fault: why, partial };
}

function answered(answer: ModelAnswer): Answered {
  return { answer, usage: { ...NO_USAGE, inputTokens: 10, outputTokens: 1 } };
}
