import type { Answered, Ask, Router } from "@dev/model";
import type { CallOp, Fault, Message, ModelAnswer } from "@dev/protocol";
import { fault, NO_USAGE } from "@dev/protocol";
import type { Part, Scenario } from "./scenario.ts";
import type { Party, Steps } from "./steps.ts";
import type { World } from "./world.ts";

/** What the model says once: text, and calls. */
export type Line = { readonly text: string; readonly calls: readonly CallOp[] };

/** What goes wrong with the model, once, where it was to say a line. */
export type Hitch = {
  /** Whose line it is: see `Part`. */
  readonly part: string;
  /** The line's number, or the summary that it is asked for. */
  readonly at: number | "summary";
  /** `retried`: nothing came, and it was tried again; `failed`: it came to nothing; `cut`: midway. */
  readonly kind: "retried" | "failed" | "cut";
  /** It goes wrong whenever the line is asked for, and not only once. */
  readonly isLasting: boolean;
};

/**
 * A model that has learnt its lines: whose they are follows from the prompt that a conversation begins
 * with, and which one it says from how often it has spoken there, so that asking again after a crash gets
 * the same reply. Its summaries say both, since they take the place of both.
 */
export class Actor {
  readonly #scenario: Scenario;
  readonly #hitches: Set<Hitch>;
  readonly #world: World;
  readonly #steps: Steps;

  constructor(scenario: Scenario, world: World, steps: Steps) {
    this.#scenario = scenario;
    this.#hitches = new Set(scenario.hitches);
    this.#world = world;
    this.#steps = steps;
  }

  /** The router as one driver's process has it. `hears`: whether what it is sent is looked at. */
  router(driver: Party, hears: () => boolean): Router {
    const steps = this.#steps;
    return {
      ask: async (ask, onDelta, onAttempt, signal) => {
        const asked = this.#world.transcripts.hear(ask, hears());
        const isSummary = asked?.purpose === "compact";
        const part = partIn(ask, this.#scenario.parts);
        const spoken = spokenIn(ask.messages);
        const at = isSummary ? "summary" : spoken;
        const line = isSummary ? summary(part, spoken) : lineOf(part, spoken);
        const label = labelOf(part, at, spoken);
        const answered = (answer: ModelAnswer): Answered => {
          const figures = { answer, ...this.#figures(ask, answer) };
          if (asked !== null) this.#world.transcripts.say(asked.id, figures);
          return figures;
        };
        const hitch = this.#takeHitch(part, at);
        await onAttempt(1, null);
        await steps.pass(driver, `asks the model for ${label}`);
        if (hitch?.kind === "retried") {
          await onAttempt(2, OVERLOADED);
          await steps.pass(driver, `asks the model again for ${label}`);
        }
        if (hitch?.kind === "failed") return answered(failed(OVERLOADED, ""));
        if (this.#overflows(ask)) return answered(failed(OVERFLOW, ""));
        if (signal.aborted) return answered({ kind: "cancelled", partial: "" });
        onDelta({ kind: "text", text: line.text });
        await steps.pass(driver, `hears some of ${label}`, SPEECH_MS);
        if (signal.aborted) return answered({ kind: "cancelled", partial: line.text });
        if (hitch?.kind === "cut") return answered(failed(CUT, line.text));
        return answered(replied(line, spoken));
      },
      close: () => undefined,
    };
  }

  #takeHitch({ name }: Part, at: Hitch["at"]): Hitch | undefined {
    const hitch = [...this.#hitches].find((each) => each.at === at && each.part === name);
    if (hitch !== undefined && !hitch.isLasting) this.#hitches.delete(hitch);
    return hitch;
  }

  #overflows({ messages }: Ask): boolean {
    return messages.length > this.#scenario.windowMessages;
  }

  /** What the provider says was used follows from what it was sent, so that it is the same when asked again. */
  #figures({ messages }: Ask, answer: ModelAnswer): Omit<Answered, "answer"> {
    const isFree = answer.kind === "failed";
    const inputTokens = isFree ? 0 : messages.length * MESSAGE_TOKENS;
    return {
      usage: { ...NO_USAGE, inputTokens, outputTokens: isFree ? 0 : 1 },
      costMicroUsd: inputTokens * TOKEN_MICRO_USD,
    };
  }
}

/** How long a line takes to say. */
const SPEECH_MS = 60;
/** What one message weighs, however long it is. */
export const MESSAGE_TOKENS = 100;
const TOKEN_MICRO_USD = 3;

const OVERLOADED = fault("overloaded", "the provider has too much to do");
const OVERFLOW = fault("context_overflow", "the conversation is longer than the model's window");
const CUT = fault("cut", "the stream ended before the reply did");

/** How a summary begins that says which lines have been spoken. */
const SUMMARY = /so far: (\w*) has spoken (\d+) lines/;

/** The part whose cue a conversation begins with, or that its summary names: else the first one. */
function partIn({ messages }: Ask, parts: readonly Part[]): Part {
  const [first] = messages;
  const text = first?.kind === "user" ? first.text : "";
  const [, name] = SUMMARY.exec(text) ?? [];
  const found = parts.find((part) =>
    name === undefined ? part.cue !== "" && text.startsWith(part.cue) : part.name === name,
  );
  const part = found ?? parts[0];
  if (part === undefined) throw new Error("a scenario without parts");
  return part;
}

function spokenIn(messages: readonly Message[]): number {
  const [first] = messages;
  const [, , before = "0"] = SUMMARY.exec(first?.kind === "user" ? first.text : "") ?? [];
  return Number(before) + messages.filter(({ kind }) => kind === "assistant").length;
}

function summary({ name }: Part, spoken: number): Line {
  return { text: `so far: ${name} has spoken ${spoken} lines`, calls: [] };
}

function labelOf({ name }: Part, at: Hitch["at"], spoken: number): string {
  const line = at === "summary" ? `summary after ${spoken}` : `line ${at}`;
  return name === "" ? line : `${name}'s ${line}`;
}

function lineOf({ lines }: Part, spoken: number): Line {
  return lines[spoken] ?? { text: "done", calls: [] };
}

function replied({ text, calls }: Line, position: number): ModelAnswer {
  return {
    kind: "reply",
    text,
    reasoning: "",
    calls: calls.map((op, index) => ({ ref: `line${position}-${index}`, op })),
    stop: calls.length === 0 ? "end" : "calls",
    opaque: "",
  };
}

function failed(why: Fault, partial: string): ModelAnswer {
  return { kind: "failed", fault: why, partial };
}
