import type { Limits } from "@dev/core";
import type { Action, ActionId, AgentId, CallOp, Event, ToolSpec, TurnId } from "@dev/protocol";
import { ROOT_AGENT } from "@dev/protocol";

/** Ops that end a turn. */
const ENDS: ReadonlySet<string> = new Set(["save", "done"]);

type Agent = { readonly depth: number; readonly tools: readonly ToolSpec[] };

/**
 * Counts what the limits limit, from what becomes durable: an ask that is minted when a limit has been
 * reached is one too many. What a crash made nobody hear of is nowhere counted.
 */
export class Meter {
  readonly #limits: Limits;
  readonly #onBreach: (what: string) => void;
  readonly #asks = new Map<TurnId, number>();
  readonly #actions = new Map<ActionId, Action>();
  readonly #agents = new Map<AgentId, Agent>();
  /** Sub-agents that have not come to their end. */
  readonly #atWork = new Map<AgentId, TurnId>();
  /** How many replies of an agent's in a row have made the same calls. */
  readonly #same = new Map<AgentId, { readonly calls: string; readonly count: number }>();
  #tokenCount = 0;
  #costMicroUsd = 0;

  constructor(limits: Limits, onBreach: (what: string) => void) {
    this.#limits = limits;
    this.#onBreach = onBreach;
  }

  /** An event is durable, with the actions that it minted. */
  append(event: Event, minted: readonly Action[]): void {
    const asked = event.kind === "turn" ? undefined : this.#asked(event);
    if (event.kind === "model") {
      const { usage, costMicroUsd, answer } = event;
      this.#tokenCount += usage.inputTokens + usage.outputTokens;
      this.#costMicroUsd += costMicroUsd;
      const calls = answer.kind === "reply" ? answer.calls.map(({ op }) => op) : [];
      if (asked?.op.kind === "model" && asked.op.purpose === "turn")
        this.#reply(asked, calls, minted);
    }
    for (const action of minted) {
      this.#actions.set(action.id, action);
      const { op } = action;
      if (op.kind === "model") this.#ask(action, op.tools, asked);
      if (op.kind !== "done") continue;
      for (const [agent, turn] of this.#atWork) if (turn === op.turn) this.#atWork.delete(agent);
      this.#same.clear();
    }
  }

  #asked(event: Event): Action | undefined {
    return "id" in event ? this.#actions.get(event.id as ActionId) : undefined;
  }

  #ask(action: Action, tools: readonly ToolSpec[], by: Action | undefined): void {
    const { id, agent, turn } = action;
    const { modelCallsPerTurn, tokensPerSession, costMicroUsdPerSession } = this.#limits;
    const count = (this.#asks.get(turn) ?? 0) + 1;
    this.#asks.set(turn, count);
    this.#check(id, "modelCallsPerTurn", count, modelCallsPerTurn);
    if (tokensPerSession > 0) {
      this.#check(id, "tokensPerSession", this.#tokenCount + 1, tokensPerSession);
    }
    if (costMicroUsdPerSession > 0) {
      this.#check(id, "costMicroUsdPerSession", this.#costMicroUsd + 1, costMicroUsdPerSession);
    }
    if (!this.#agents.has(agent)) this.#spawn(action, tools, by?.agent ?? ROOT_AGENT);
  }

  #spawn({ id, agent, turn }: Action, tools: readonly ToolSpec[], parent: AgentId): void {
    const above = this.#agents.get(parent);
    const depth = agent === ROOT_AGENT ? 0 : (above?.depth ?? 0) + 1;
    this.#agents.set(agent, { depth, tools });
    if (agent === ROOT_AGENT) return;
    this.#atWork.set(agent, turn);
    this.#check(id, "agentDepth", depth, this.#limits.agentDepth);
    this.#check(id, "agentCount", this.#atWork.size, this.#limits.agentCount);
    const had = new Set(above?.tools.map(({ name }) => name));
    for (const { name } of tools) {
      if (!had.has(name)) this.#onBreach(`agent ${agent} is given ${name}, which its parent lacks`);
    }
  }

  #reply({ agent, op }: Action, calls: readonly CallOp[], minted: readonly Action[]): void {
    if (op.kind !== "model" || op.purpose !== "turn") return;
    // Without calls a sub-agent is at its end.
    if (calls.length === 0) this.#atWork.delete(agent);
    const { callsPerReply, identicalReplies } = this.#limits;
    const text = JSON.stringify(calls);
    const before = this.#same.get(agent);
    const count = before?.calls === text ? before.count + 1 : 1;
    this.#same.set(agent, { calls: text, count });
    // What comes of the calls is the agent's, or that of one which it has made.
    const run = minted.find(
      (each) => each.op.kind !== "emit" && (each.agent === agent || !this.#agents.has(each.agent)),
    );
    if (calls.length === 0 || run === undefined || ENDS.has(run.op.kind)) return;
    this.#check(run.id, "callsPerReply", calls.length, callsPerReply);
    this.#check(run.id, "identicalReplies", count, identicalReplies);
  }

  /** The agents that are at work. */
  get agents(): readonly AgentId[] {
    return [ROOT_AGENT, ...this.#atWork.keys()];
  }

  /** A model is asked, when the conversations at work are so long. */
  weigh(id: ActionId, sizeBytes: number): void {
    this.#check(id, "conversationBytes", sizeBytes, this.#limits.conversationBytes);
  }

  #check(id: number, name: keyof Limits, figure: number, limit: number): void {
    if (figure > limit) this.#onBreach(`${name}: ${figure} of ${limit} at action ${id}`);
  }
}
