import type { DoneOp, Event, SessionId, TurnId, Usage } from "@dev/protocol";
import { NO_USAGE } from "@dev/protocol";
import type { TurnEnd } from "./progress.ts";

/** What each turn has come to so far: what it used, what was last said in it, what was refused. */
export class Tallies {
  readonly #turns = new Map<TurnId, Tally>();

  /** Takes an event that answers an action of this turn. */
  take(turn: TurnId, event: Event): void {
    this.#turns.set(turn, added(this.#turns.get(turn) ?? NOTHING, event));
  }

  /** Ends a turn's tally. */
  end(session: SessionId, done: DoneOp): TurnEnd {
    const tally = this.#turns.get(done.turn) ?? NOTHING;
    this.#turns.delete(done.turn);
    const { turn, outcome, reason } = done;
    return { session, turn, outcome, reason, ...tally };
  }
}

type Tally = Pick<TurnEnd, "usage" | "message" | "refused">;

const NOTHING: Tally = { usage: NO_USAGE, message: "", refused: false };

function added(tally: Tally, event: Event): Tally {
  if (event.kind === "model") {
    const usage = sum(tally.usage, event.usage);
    const { answer } = event;
    if (answer.kind !== "reply") return { ...tally, usage };
    return {
      usage,
      message: answer.text === "" ? tally.message : answer.text,
      // New calls begin a new batch, of which nothing has been refused.
      refused: answer.calls.length === 0 && tally.refused,
    };
  }
  const refused = "outcome" in event && event.outcome.kind === "refused";
  return refused ? { ...tally, refused } : tally;
}

function sum(a: Usage, b: Usage): Usage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    reasoningTokens: a.reasoningTokens + b.reasoningTokens,
  };
}
