import type {
  Action,
  AgentId,
  DoneOp,
  Event,
  ModelAnswer,
  SpawnOp,
  ToolMessage,
  TurnId,
} from "@dev/protocol";
import { ROOT_AGENT } from "@dev/protocol";

/** A sub-agent, as whoever watches knows it. */
export type Member = {
  readonly agent: AgentId;
  readonly parent: AgentId;
  readonly turn: TurnId;
  /** Its kind; empty for the usual one. */
  readonly kind: string;
  readonly task: string;
};

/** How a sub-agent ended. `stopped`: before it came to an end of its own. */
export type MemberEnd = {
  readonly outcome: "complete" | "failed" | "limit" | "stopped";
  /** What it said last, or why it failed, or which limit it reached. */
  readonly text: string;
};

/** A step of the core: what an end is read from. `answered`: the action that the event answers. */
export type MemberStep = {
  readonly answered: Action | null;
  readonly event: Event;
  readonly minted: readonly Action[];
};

/**
 * The sub-agents at work, and for whom. Nothing is decided by it: it is what a person is told. A core says
 * of a sub-agent no more than whose action is whose, so its task and its kind are those of the call
 * that its first ask repeats.
 */
export class Roster {
  readonly #members = new Map<AgentId, Member>();
  /** Calls of which no sub-agent has come yet: one may have been refused. */
  #calls: Called[] = [];
  /** The call that each came of. */
  readonly #calledBy = new Map<AgentId, Called>();
  /** Those that have ended, of which their parent alone will be told why. */
  #untold: Member[] = [];

  /** Takes the answer of an action: a reply may call for sub-agents. */
  hear({ agent, turn }: Action, event: Event): void {
    if (event.kind !== "model" || event.answer.kind !== "reply") return;
    for (const { ref, op } of event.answer.calls) {
      if (op.kind === "spawn") this.#calls.push({ parent: agent, turn, ref, op });
    }
  }

  /** Takes an ask; what it answers is the sub-agent whose first one it is. */
  ask({ agent, turn, op }: Action): Member | null {
    if (op.kind !== "model" || agent === ROOT_AGENT || this.#members.has(agent)) return null;
    const told = op.messages.map((each) => (each.kind === "user" ? each.text : "")).join("\n");
    const at = this.#calls.findIndex(
      (call) => call.turn === turn && told.includes(call.op.prompt.trim()),
    );
    const [call] = at < 0 ? [] : this.#calls.splice(at, 1);
    const { agent: kind = "", prompt: task = "" } = call?.op ?? {};
    const member = { agent, parent: call?.parent ?? ROOT_AGENT, turn, kind, task };
    this.#members.set(agent, member);
    if (call !== undefined) this.#calledBy.set(agent, call);
    return member;
  }

  /** Those at work. */
  members(): readonly Member[] {
    return [...this.#members.values()];
  }

  /** Takes off those that have come to their end with a step, and answers each with how it ended. */
  ends(busy: ReadonlySet<AgentId>, step: MemberStep): readonly (readonly [Member, MemberEnd])[] {
    const ends: [Member, MemberEnd][] = [];
    const untold: Member[] = [];
    for (const member of [...this.#untold, ...this.rest(busy)]) {
      const end = memberEnd(member, step, this.#calledBy.get(member.agent)?.ref ?? null);
      if (end === null) untold.push(member);
      else {
        ends.push([member, end]);
        this.#calledBy.delete(member.agent);
      }
    }
    this.#untold = untold;
    return ends;
  }

  /** Takes off, and answers, those that wait for nothing any more, nor does any that works for them. */
  rest(busy: ReadonlySet<AgentId>): readonly Member[] {
    const needed = new Set<AgentId>();
    for (const agent of busy) {
      for (let at = this.#members.get(agent); at !== undefined; ) {
        needed.add(at.agent);
        at = this.#members.get(at.parent);
      }
    }
    const resting = [...this.#members.values()].filter(({ agent }) => !needed.has(agent));
    for (const { agent } of resting) this.#members.delete(agent);
    return resting;
  }

  /** Forgets what a turn that has ended called for. */
  retire(turn: TurnId): void {
    this.#calls = this.#calls.filter((call) => call.turn !== turn);
  }
}

type Called = {
  readonly parent: AgentId;
  readonly turn: TurnId;
  readonly ref: string;
  readonly op: SpawnOp;
};

/**
 * How a sub-agent ended: by the answer to its own last ask, by what its parent is told of the call `ref`,
 * or because its turn ended. Null: nothing of that has come yet.
 */
function memberEnd(
  { agent, parent, turn }: Member,
  { answered, event, minted }: MemberStep,
  ref: string | null,
): MemberEnd | null {
  const isOwn = answered?.agent === agent && answered.op.kind === "model";
  const isTurns = isOwn && answered.op.kind === "model" && answered.op.purpose === "turn";
  const byAnswer = isTurns && event.kind === "model" ? endBy(event.answer) : null;
  if (byAnswer !== null) return byAnswer;
  for (const { agent: whose, op } of minted) {
    if (op.kind === "done" && op.turn === turn) return endWith(op);
    if (whose !== parent || op.kind !== "model") continue;
    const told = op.messages.findLast((each) => each.kind === "tool" && each.ref === ref);
    if (told?.kind === "tool") return endTold(told);
  }
  return null;
}

/** The end by an answer. Null: it called something, which was not done; or it goes on. */
function endBy(answer: ModelAnswer): MemberEnd | null {
  if (answer.kind === "failed") return { outcome: "failed", text: answer.fault.message };
  if (answer.kind === "cancelled") return { outcome: "stopped", text: answer.partial };
  if (answer.stop === "refusal") return { outcome: "failed", text: "its model refused to answer" };
  if (answer.calls.length > 0) return null;
  if (answer.stop === "length") return { outcome: "limit", text: "its model's own, on an answer" };
  return { outcome: "complete", text: answer.text };
}

function endWith({ outcome, reason }: DoneOp): MemberEnd {
  if (outcome === "limit") return { outcome: "limit", text: reason };
  return { outcome: "stopped", text: outcome === "failed" ? reason : "" };
}

/** The end as its parent is told of it: where that failed, the first line says why. */
function endTold({ text, failed }: ToolMessage): MemberEnd {
  if (!failed) return { outcome: "complete", text };
  const reason = (text.split("\n")[0] ?? "").replace(/^failed: (the agent did not finish: )?/, "");
  // A limit is named first, as the configuration names it.
  return { outcome: /^[a-z]+([A-Z][a-z]+)+: /.test(reason) ? "limit" : "failed", text: reason };
}
