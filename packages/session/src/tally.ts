import type {
  Action,
  AgentId,
  DoneOp,
  Event,
  ModelAnswer,
  SessionId,
  TurnId,
  Usage,
} from "@dev/protocol";
import { NO_USAGE, ROOT_AGENT } from "@dev/protocol";
import type { TurnEnd } from "./progress.ts";

/** What each turn has come to so far: what it used, what was last said in it, what was refused. */
export class Tallies {
  readonly #turns = new Map<TurnId, Tally>();
  readonly #dones: DoneOp[] = [];
  #last: TurnEnd | null = null;

  /** Takes an event that answers this action. */
  take(action: Action, event: Event): void {
    const tally = this.#turns.get(action.turn) ?? NOTHING;
    this.#turns.set(action.turn, added(tally, action, event));
  }

  /** Takes an action that the core asks for: what it has said is the session's own agent's, or its own. */
  mint({ agent, turn, op }: Action): void {
    if (op.kind !== "emit" || agent !== ROOT_AGENT) return;
    this.#turns.set(turn, { ...(this.#turns.get(turn) ?? NOTHING), message: op.text });
  }

  /** Takes the end of a turn; its tally stays open for answers that are still on their way. */
  done(op: DoneOp): void {
    this.#dones.push(op);
  }

  /** Whether a turn has ended since this began. */
  get hasEnded(): boolean {
    return this.#dones.length > 0 || this.#last !== null;
  }

  /** Ends the tallies of the turns that are done, and answers with the last; null: none was ever. */
  last(session: SessionId): TurnEnd | null {
    for (const op of this.#dones.splice(0)) this.#last = this.end(session, op);
    return this.#last;
  }

  /** Ends a turn's tally. */
  end(session: SessionId, done: DoneOp): TurnEnd {
    const { refused, ...sums } = this.#turns.get(done.turn) ?? NOTHING;
    this.#turns.delete(done.turn);
    const { turn, outcome, reason } = done;
    return { session, turn, outcome, reason, ...sums, refused: refused.size > 0 };
  }
}

type Tally = Pick<TurnEnd, "usage" | "costMicroUsd" | "message" | "answer"> & {
  /** The agents of whose last calls one was refused. */
  readonly refused: ReadonlySet<AgentId>;
};

const NOTHING: Tally = {
  usage: NO_USAGE,
  costMicroUsd: 0,
  message: "",
  answer: "",
  refused: new Set(),
};

function added(tally: Tally, action: Action, event: Event): Tally {
  const { agent, op } = action;
  if (event.kind !== "model" || op.kind !== "model") {
    const isRefused = "outcome" in event && event.outcome.kind === "refused";
    return isRefused ? { ...tally, refused: new Set([...tally.refused, agent]) } : tally;
  }
  // Whoever asked, and whatever for: it is paid for.
  const sums = {
    usage: sum(tally.usage, event.usage),
    costMicroUsd: tally.costMicroUsd + event.costMicroUsd,
  };
  const { answer } = event;
  if (answer.kind !== "reply" || op.purpose !== "turn") return { ...tally, ...sums };
  return {
    ...tally,
    ...sums,
    answer: agent === ROOT_AGENT ? answerOf(answer) : tally.answer,
    refused: answer.calls.length === 0 ? tally.refused : withoutOlder(tally.refused, agent),
  };
}

function answerOf({ text, calls, stop }: Extract<ModelAnswer, { kind: "reply" }>): string {
  // What a model that refuses had begun to call is not called.
  return calls.length === 0 || stop === "refusal" ? text : "";
}

/** New calls begin a new batch, of which nothing has been refused; the session's own agent's, all anew. */
function withoutOlder(refused: ReadonlySet<AgentId>, agent: AgentId): ReadonlySet<AgentId> {
  return new Set([...refused].filter((each) => agent !== ROOT_AGENT && each !== agent));
}

function sum(a: Usage, b: Usage): Usage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    reasoningTokens: a.reasoningTokens + b.reasoningTokens,
  };
}
