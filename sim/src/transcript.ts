import type { Answered, Ask } from "@dev/model";
import type {
  Action,
  ActionId,
  AgentId,
  AssistantMessage,
  Call,
  Event,
  Message,
  ModelEvent,
  ModelOp,
  Outcome,
  PlanItem,
} from "@dev/protocol";
import { isEffect } from "@dev/protocol";
import type { Words } from "./words.ts";

type OnBreach = (what: string) => void;

/** An ask that has no answer yet. */
type Asked = { readonly id: ActionId; readonly agent: AgentId; readonly purpose: Purpose };
type Purpose = ModelOp["purpose"];

/** One agent's conversation, as its asks and its answers tell it. */
type Transcript = {
  /** Who asked for it; null for the session's own. */
  readonly parent: AgentId | null;
  /** What it was begun with. */
  prompt: string;
  /** What a host that follows the asks has been told. */
  told: Pick<Ask, "prelude" | "tools" | "messages" | "model"> | null;
  /** The conversation as of its last ask that asked for no summary. */
  history: readonly Message[];
  /** What the model has said since then, if anything. */
  heard: AssistantMessage | null;
  /** A summary that is on its way, or that has come (`text`), and how much it is to stand for. */
  summary: { readonly cut: number; readonly text: string | null } | null;
  plan: readonly PlanItem[];
  /** The last that a sub-agent said, once it has come to its end. */
  result: string | null;
};

/**
 * Every conversation as someone follows it who sees what becomes durable: each ask against the one
 * before it and against what has been answered since, and what models are sent against the asks.
 */
export class Transcripts {
  readonly #onBreach: OnBreach;
  readonly #agents = new Map<AgentId, Transcript>();
  readonly #open = new Map<ActionId, Asked & { readonly sent: string }>();
  readonly #actions = new Map<ActionId, Action>();
  readonly #outcomes = new Map<ActionId, Outcome>();
  /** All that the model has really said in answer to each ask: more than once, after a crash. */
  readonly #said = new Map<ActionId, string[]>();
  readonly #words: Words;

  constructor(words: Words, onBreach: OnBreach) {
    this.#words = words;
    this.#onBreach = onBreach;
  }

  /** An event is durable, with the actions that it minted. */
  append(event: Event, minted: readonly Action[]): void {
    if (event.kind === "model") this.#answer(event);
    if ("outcome" in event) this.#outcomes.set(event.id, event.outcome);
    const asking = "id" in event ? this.#actions.get(event.id as ActionId) : undefined;
    for (const action of minted) {
      this.#actions.set(action.id, action);
      if (action.op.kind === "model") {
        const agent = event.kind === "turn" ? undefined : asking?.agent;
        this.#ask(action.id, action.agent, agent ?? null, action.op);
      }
      if (action.op.kind === "done") this.#end(action);
    }
  }

  /** A model is sent this. The ask that it is, where it is one that waits for its answer. */
  hear(ask: Ask, isNewest: boolean): Asked | null {
    const sent = sentText(ask);
    const asked = [...this.#open.values()].find((each) => each.sent === sent) ?? null;
    const flaw = flawIn(ask.messages);
    if (flaw !== null) this.#onBreach(flaw);
    if (asked === null && isNewest) this.#onBreach("a model is sent what no open ask tells of");
    return asked;
  }

  /** A model has answered this ask so. */
  say(id: ActionId, { answer, usage, costMicroUsd }: Answered): void {
    const said = this.#said.get(id) ?? [];
    this.#said.set(id, [...said, textOf([answer, usage, costMicroUsd])]);
  }

  #answer({ id, answer, usage, costMicroUsd }: ModelEvent): void {
    const asked = this.#open.get(id);
    this.#open.delete(id);
    if (asked === undefined) return;
    const told = textOf([answer, usage, costMicroUsd]);
    if (this.#said.get(id)?.includes(told) !== true) {
      this.#onBreach(`the answer to ask ${id} is none that a model gave`);
    }
    const transcript = this.#transcript(asked.agent, null);
    const { summary } = transcript;
    if (summary !== null) {
      const isGood = answer.kind === "reply" && answer.text !== "";
      transcript.summary = isGood ? { ...summary, text: answer.text } : null;
      return;
    }
    if (answer.kind === "failed") return;
    const text = answer.kind === "reply" ? answer.text : answer.partial;
    const calls = answer.kind === "reply" ? answer.calls : [];
    if (text !== "" || calls.length > 0) {
      transcript.heard = { kind: "assistant", text, reasoning: "", calls, opaque: "" };
    }
    if (answer.kind === "reply" && calls.length === 0) transcript.result = text;
    for (const { op } of calls) if (op.kind === "plan") transcript.plan = op.items;
  }

  /** A turn has ended, and with it what it had under way. */
  #end({ op }: Action): void {
    if (op.kind !== "done") return;
    for (const [id] of this.#open) {
      if (this.#actions.get(id)?.turn === op.turn) this.#open.delete(id);
    }
    for (const transcript of this.#agents.values()) {
      if (transcript.summary?.text === null) transcript.summary = null;
    }
  }

  #ask(id: ActionId, agent: AgentId, asking: AgentId | null, op: ModelOp): void {
    const transcript = this.#transcript(agent, agent === asking ? null : asking);
    for (const other of this.#open.values()) {
      if (other.agent === agent) this.#onBreach(`agent ${agent} asks ${id} beside ${other.id}`);
    }
    const before = transcript.told;
    const messages = [...(before?.messages.slice(0, op.from) ?? []), ...op.messages];
    const toldCount = before?.messages.length ?? 0;
    if (op.from > toldCount) this.#onBreach(`ask ${id} is from ${op.from}, of ${toldCount} told`);
    const { prelude, tools } = op.from === 0 || before === null ? op : before;
    const told = { prelude, tools, messages, model: op.model };
    if (
      before !== null &&
      (op.from === 0 || op.model !== before.model) &&
      headText(before) !== headText(told)
    ) {
      this.#onBreach(`ask ${id} has another head than the one before`);
    }
    transcript.told = told;
    const flaw = flawIn(messages);
    if (flaw !== null) this.#onBreach(`ask ${id}: ${flaw}`);
    this.#summarise(id, transcript, messages);
    if (op.purpose === "compact") this.#compact(id, agent, messages.slice(0, -1));
    else {
      this.#extend(id, agent, messages);
      this.#words.hear(agent, messages);
    }
    this.#open.set(id, { id, agent, purpose: op.purpose, sent: sentText(told) });
  }

  /** A summary is asked for, of the messages before a cut. */
  #compact(id: ActionId, agent: AgentId, messages: readonly Message[]): void {
    const transcript = this.#transcript(agent, null);
    if (transcript.history.length < messages.length) this.#extend(id, agent, messages);
    else if (!begins(transcript.history, messages)) {
      this.#onBreach(`ask ${id} is for a summary of what was not said`);
    }
    transcript.summary = { cut: messages.length, text: null };
  }

  /** A summary that has come takes its place: with the plan, and with all behind its cut. */
  #summarise(id: ActionId, transcript: Transcript, [first]: readonly Message[]): void {
    const { summary, plan, history } = transcript;
    if (summary === null || summary.text === null || first === undefined) return;
    const told = first.kind === "user" ? first.text : "";
    if (!told.includes(summary.text)) this.#onBreach(`ask ${id} does not begin with the summary`);
    for (const { text } of plan) {
      if (!told.includes(text)) this.#onBreach(`ask ${id} has lost ${text} of the plan`);
    }
    transcript.history = [first, ...history.slice(summary.cut)];
    transcript.summary = null;
  }

  /** A conversation goes on: all that it had is there, and then what was said and done since. */
  #extend(id: ActionId, agent: AgentId, messages: readonly Message[]): void {
    const transcript = this.#transcript(agent, null);
    const { history, heard } = transcript;
    if (!begins(messages, history)) this.#onBreach(`ask ${id} lacks what was said before`);
    const [last, ...results] = messages.slice(history.length);
    if (heard !== null) {
      const same = textOf(bare(last)) === textOf(bare(heard));
      if (!same) this.#onBreach(`ask ${id} lacks what the model said last`);
      this.#checkResults(id, agent, heard.calls, results);
    }
    transcript.history = messages;
    transcript.heard = null;
    if (history.length === 0 && last?.kind === "user") transcript.prompt = last.text;
  }

  /** Each call's result says what came of it. */
  #checkResults(
    id: ActionId,
    agent: AgentId,
    calls: readonly Call[],
    results: readonly Message[],
  ): void {
    const taken = new Set<ActionId>();
    for (const [index, { op }] of calls.entries()) {
      const result = results[index];
      if (result?.kind !== "tool") continue;
      if (op.kind === "spawn") {
        const child = this.#childOf(agent, op.prompt);
        const isTold = child === null ? result.failed : result.text.includes(child);
        if (!isTold) this.#onBreach(`ask ${id} tells of ${op.prompt} what it did not say`);
        continue;
      }
      const action = [...this.#actions.values()].find(
        (each) => each.agent === agent && !taken.has(each.id) && sameOp(each, op),
      );
      // A call that was refused in place is none.
      if (action === undefined) continue;
      taken.add(action.id);
      const outcome = this.#outcomes.get(action.id);
      const answer = this.#words.answerTo(action.id) ?? markOf(undefined);
      const mark = isEffect(action.op) ? markOf(outcome) : answer;
      this.#actions.delete(action.id);
      if (!result.text.includes(mark)) {
        this.#onBreach(`ask ${id} does not tell what came of ${action.id}: ${mark}`);
      }
    }
  }

  /** What the newest sub-agent with this prompt said last; null where it has come to no end of its own. */
  #childOf(parent: AgentId, prompt: string): string | null {
    const children = [...this.#agents.values()].filter((each) => each.parent === parent);
    return children.findLast((each) => each.prompt === prompt)?.result ?? null;
  }

  /** How much the model has been told at most of this conversation, as JSON. */
  sizeBytes(agent: AgentId): number {
    const { history } = this.#transcript(agent, null);
    return history.reduce((sum, each) => sum + Buffer.byteLength(messageText(each)), 0);
  }

  #transcript(agent: AgentId, parent: AgentId | null): Transcript {
    const known = this.#agents.get(agent);
    if (known !== undefined) return known;
    const fresh: Transcript = {
      parent,
      prompt: "",
      told: null,
      history: [],
      heard: null,
      summary: null,
      plan: [],
      result: null,
    };
    this.#agents.set(agent, fresh);
    return fresh;
  }
}

/** Why a provider would refuse these messages: each call has one result, right behind it, in order. */
function flawIn(messages: readonly Message[]): string | null {
  let waiting: readonly string[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.kind === "tool") {
      if (message.ref !== waiting[0])
        return `message ${index} answers ${message.ref}, out of order`;
      waiting = waiting.slice(1);
      continue;
    }
    if (waiting.length > 0) return `message ${index} comes before the result of ${waiting[0]}`;
    if (message.kind === "assistant") waiting = message.calls.map(({ ref }) => ref);
  }
  return waiting.length > 0 ? `the call ${waiting[0]} has no result` : null;
}

/** A value as text, the same whatever order its fields are in. */
function textOf(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}

/** A message as text, which is made once: conversations are compared at every ask. */
function messageText(message: Message): string {
  const known = texts.get(message);
  if (known !== undefined) return known;
  const text = textOf(message);
  texts.set(message, text);
  return text;
}

const texts = new WeakMap<Message, string>();

function begins(messages: readonly Message[], head: readonly Message[]): boolean {
  return head.every((message, index) => {
    const other = messages[index];
    return (
      other === message || (other !== undefined && messageText(other) === messageText(message))
    );
  });
}

/** What a provider keeps a conversation's beginning by: it stays the same from ask to ask. */
function headText({ prelude, tools, model }: Pick<Ask, "prelude" | "tools" | "model">): string {
  return textOf([prelude, tools, model]);
}

function sentText({ prelude, tools, model, messages }: Omit<Ask, "effort">): string {
  return [textOf([prelude, tools, model]), ...messages.map(messageText)].join("\n");
}

function bare(message: Message | undefined): unknown {
  return message?.kind === "assistant" ? [message.text, message.calls] : null;
}

function sameOp({ op }: Action, call: Call["op"]): boolean {
  return op.kind === call.kind && textOf(op) === textOf(call);
}

/** What a result must hold for a model to learn from it what came of a call. */
function markOf(outcome: Outcome | undefined): string {
  if (outcome?.kind !== "ok") return outcome?.kind ?? "cancelled";
  switch (outcome.result.kind) {
    case "exec":
      return outcome.result.stdout;
    case "read":
      return outcome.result.text;
    default:
      return "";
  }
}
