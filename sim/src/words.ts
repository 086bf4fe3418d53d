import type { Action, ActionId, AgentId, Event, Message, TurnId } from "@dev/protocol";
import { ROOT_AGENT } from "@dev/protocol";

type Question = {
  readonly agent: AgentId;
  readonly turn: TurnId;
  /** What answered it; null while nothing has. */
  answer: string | null;
};

/**
 * What a person says to a session that is at work: answers to questions, and messages in between. Each
 * reaches the model once, whatever crashes, as soon as it is durable.
 */
export class Words {
  readonly #onBreach: (what: string) => void;
  readonly #questions = new Map<ActionId, Question>();
  /** Questions that wait for an answer. */
  readonly #open = new Set<ActionId>();
  /** Messages in between, and whether the model has been told of them. */
  readonly #steers = new Map<string, boolean>();
  /** Messages that were answers. */
  readonly #answers = new Set<string>();

  constructor(onBreach: (what: string) => void) {
    this.#onBreach = onBreach;
  }

  /** Whether a message in between was taken up. */
  has(text: string): boolean {
    return this.#steers.has(text) || this.#answers.has(text);
  }

  /** An event is durable, with the actions that it minted. */
  append(event: Event, minted: readonly Action[]): void {
    if (event.kind === "reply") this.#reply(event.id, [...event.choices, event.text]);
    if (event.kind === "steer" && !this.#answerAll(event.text)) this.#steers.set(event.text, false);
    if (event.kind === "turn" && minted.some(({ op }) => isEnd(op, event.id))) {
      this.#answerAll(event.prompt);
    }
    for (const { id, agent, turn, op } of minted) {
      if (op.kind === "question") {
        this.#questions.set(id, { agent, turn, answer: null });
        this.#open.add(id);
      }
      if (op.kind === "done") this.#end(op.turn);
    }
  }

  /** A conversation goes on like this. */
  hear(agent: AgentId, messages: readonly Message[]): void {
    const said = messages.flatMap((message) => (message.kind === "user" ? [message.text] : []));
    for (const [text, isTold] of this.#steers) {
      const count = said.filter((each) => each === text).length;
      if (count > 1) this.#onBreach(`the model is told ${count} times: ${text}`);
      if (agent !== ROOT_AGENT) {
        if (count > 0) this.#onBreach(`agent ${agent} is told: ${text}`);
        continue;
      }
      if (count === 0 && !isTold) this.#onBreach(`the model is not told: ${text}`);
      this.#steers.set(text, true);
    }
    for (const text of this.#answers) {
      if (said.includes(text)) this.#onBreach(`an answer is a message too: ${text}`);
    }
  }

  /** What answered a question; null where it is none, or has no answer. */
  answerTo(id: ActionId): string | null {
    return this.#questions.get(id)?.answer ?? null;
  }

  #reply(id: ActionId, parts: readonly string[]): void {
    const question = this.#questions.get(id);
    if (question === undefined || !this.#open.delete(id)) {
      this.#onBreach(`question ${id} is answered, and waits for no answer`);
    } else {
      question.answer = parts.filter((part) => part !== "").join("\n");
    }
  }

  /** A message answers every question that waits; false when none does. */
  #answerAll(text: string): boolean {
    if (this.#open.size === 0) return false;
    this.#answers.add(text);
    for (const id of this.#open) {
      const question = this.#questions.get(id);
      if (question !== undefined) question.answer = text;
    }
    this.#open.clear();
    return true;
  }

  #end(turn: TurnId): void {
    for (const id of this.#open) {
      if (this.#questions.get(id)?.turn === turn) this.#open.delete(id);
    }
  }
}

function isEnd(op: Action["op"], turn: TurnId): boolean {
  return op.kind === "done" && op.turn === turn && op.outcome === "complete";
}
