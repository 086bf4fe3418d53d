import type { Limits } from "@dev/core";
import type { Action, ActionId, Event, Outcome } from "@dev/protocol";
import { encodeAction, encodeEvent } from "@dev/protocol";
import type { Save } from "@dev/store";
import { Meter } from "./meter.ts";
import { Transcripts } from "./transcript.ts";
import { Words } from "./words.ts";

/** A promise of the system's, by what its breach would be. */
export type Promised =
  /** No effect happens twice. */
  | "doubled"
  /** No effect begins before its dispatch is durable. */
  | "undispatched"
  /** What could be known is told: no result is lost, and `unknown` is said only of what nobody can know. */
  | "lost"
  /** Nothing is said to have happened that did not. */
  | "invented"
  /** An id means one action for ever, and its life in the ledger is a legal one. */
  | "ledger"
  /** A model sees a well-formed conversation that only grows, and what a summary has to leave as it is. */
  | "conversation"
  /** What a person says to a session at work reaches it once. */
  | "said"
  /** No limit is exceeded, and no sub-agent has a tool that its parent lacks. */
  | "limit"
  /** The session goes on to its end. */
  | "stuck"
  /** Replaying the journal gives the same actions and the same bytes. */
  | "replay"
  /** Nothing throws; no fault is met that nothing caused. */
  | "trouble";

export type Breach = { readonly promise: Promised; readonly what: string };

/**
 * The world that effects happen in, as someone sees it who sees everything: what really happened, and
 * what is durable where. Nothing in it is ever lost; the system under test reads only its files.
 */
export class World {
  readonly files: Map<string, string> = new Map();
  readonly breaches: Breach[] = [];
  /** What really came of each effect that came to its end. */
  readonly outcomes: Map<ActionId, Outcome> = new Map();
  /** Effects that nobody can know the end of: their agent died while they ran. */
  readonly unknowable: Set<ActionId> = new Set();
  /** Spools that do not exist any more. */
  readonly lostSpools: Set<string> = new Set();
  /** What somebody asked to stop. */
  readonly stopped: Set<ActionId> = new Set();
  readonly happened: Set<ActionId> = new Set();
  readonly began: Set<ActionId> = new Set();
  /** The spool under which each action has a durable dispatch. */
  readonly dispatched: Map<ActionId, string> = new Map();
  readonly answered: Set<ActionId> = new Set();
  /** What an agent was asked for more than once. */
  readonly askedAgain: Set<ActionId> = new Set();
  /** Every save that became durable. */
  readonly saves: Save[] = [];
  /** How many effects the core was told that nobody can know the end of. */
  unknownCount = 0;
  readonly #asked = new Set<ActionId>();
  readonly #minted = new Map<ActionId, Uint8Array>();
  readonly words: Words = new Words((what) => this.breach("said", what));
  readonly transcripts: Transcripts = new Transcripts(this.words, (what) =>
    this.breach("conversation", what),
  );
  readonly #meter: Meter;

  constructor(limits: Limits) {
    this.#meter = new Meter(limits, (what) => this.breach("limit", what));
  }

  breach(promise: Promised, what: string): void {
    this.breaches.push({ promise, what });
  }

  /** An event is durable, with the actions that it minted. */
  append(event: Event, minted: readonly Action[]): void {
    for (const action of minted) this.#mint(action);
    if ("outcome" in event) this.answered.add(event.id);
    this.#meter.append(event, minted);
    this.words.append(event, minted);
    this.transcripts.append(event, minted);
    for (const { id, op } of minted) {
      if (op.kind !== "model" || op.purpose !== "turn") continue;
      const sizes = this.#meter.agents.map((agent) => this.transcripts.sizeBytes(agent));
      this.#meter.weigh(
        id,
        sizes.reduce((sum, each) => sum + each, 0),
      );
    }
  }

  #mint(action: Action): void {
    const bytes = encodeAction(action);
    const known = this.#minted.get(action.id);
    if (known !== undefined && Buffer.compare(known, bytes) !== 0) {
      this.breach("ledger", `action ${action.id} is minted again, and is another one`);
    }
    this.#minted.set(action.id, bytes);
  }

  /** An agent is asked to perform this. */
  ask(action: Action): void {
    if (this.#asked.has(action.id)) this.askedAgain.add(action.id);
    this.#asked.add(action.id);
    const known = this.#minted.get(action.id);
    if (known === undefined || Buffer.compare(known, encodeAction(action)) !== 0) {
      this.breach("ledger", `a cell is asked for action ${action.id}, and the ledger's is another`);
    }
  }

  begin(id: ActionId, repeatable: boolean): void {
    if (!this.dispatched.has(id)) {
      this.breach("undispatched", `effect ${id} begins, and has no durable dispatch`);
    }
    if (this.began.has(id) && !repeatable) this.breach("doubled", `effect ${id} begins again`);
    this.began.add(id);
  }

  happen(id: ActionId): void {
    if (this.happened.has(id)) this.breach("doubled", `effect ${id} happens again`);
    this.happened.add(id);
  }
}

export function sameOutcome(a: Outcome, b: Outcome): boolean {
  const [first, second] = [a, b].map((outcome) =>
    encodeEvent({ kind: "exec", id: 1 as ActionId, outcome }),
  );
  return first !== undefined && second !== undefined && Buffer.compare(first, second) === 0;
}
