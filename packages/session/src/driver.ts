import type { Action, CellId, DoneOp, Event, Fault, Result, TurnId } from "@dev/protocol";
import { fail, familyOf, fault, isEffect, ok, type SessionId } from "@dev/protocol";
import type { Claim, NewSession, Session as SessionRow, SessionState } from "@dev/store";
import { answeredId, answerIn, mayAnswer } from "./answer.ts";
import { Inbox } from "./inbox.ts";
import { Lease } from "./lease.ts";
import { Performer } from "./performer.ts";
import type { TurnEnd } from "./progress.ts";
import { newRow, type OpenAction, type Recovered, recover, untouched } from "./recovery.ts";
import type { MemberStep } from "./roster.ts";
import type { Services } from "./services.ts";
import { settledByMessage, settledLate, settledUnanswered } from "./settled.ts";
import { sound } from "./sound.ts";
import { Stage } from "./stage.ts";
import { stateAfter } from "./state.ts";
import { type Prompt, Turns } from "./turns.ts";

/**
 * Drives one session: steps its core, writes the ledger, performs the actions. It is the only
 * place where a core meets effects. The order is what makes a crash harmless: an event and the actions
 * it minted are durable before any of them is dispatched, and a dispatch before its effect can begin.
 */
export class Driver {
  readonly session: SessionId;
  readonly #services: Services;
  readonly #claim: Claim;
  readonly #recovered: Recovered;
  readonly #performer: Performer;
  /** The hold on the cell. What a person does in it is no action, and in no ledger. */
  readonly lease: Lease;
  readonly #stage: Stage;
  readonly #inbox = new Inbox();
  /** What will have no answer, its turn having ended, and has no line that says so yet. */
  readonly #dropped: OpenAction[] = [];
  readonly #turns: Turns;
  /** What the last driver left; nothing once it is taken up. */
  #left: Pick<Recovered, "open" | "stale" | "overtaken">;
  /** Of that, what is not begun again yet. */
  #held: readonly OpenAction[] = [];
  #sequence: number;
  #state: SessionState;
  /** The turn in flight. */
  #turn: TurnId | null;
  #stopping = false;
  #isClosed = false;
  /** The turn that has been told to stop, so that it is told once. */
  #stopped: TurnId | null = null;
  #trouble: Fault | Error | null = null;
  #wake: () => void = () => {};

  private constructor(services: Services, row: SessionRow, claim: Claim, recovered: Recovered) {
    this.session = row.id;
    this.#services = services;
    this.#claim = claim;
    this.#recovered = recovered;
    this.#left = recovered;
    this.#sequence = recovered.sequence;
    this.#state = row.state;
    this.#turns = new Turns(recovered.modes);
    this.#turn =
      recovered.open.find(({ action }) => familyOf(action.op) !== "none")?.action.turn ?? null;
    this.lease = new Lease(
      {
        vendor: services.vendor,
        newCellId: services.newCellId,
        spec: () => this.#stage.spec(),
        attach: (id, workspace) => services.store.attach(claim, { id, workspace }),
        onObservation: (observation, note) =>
          services.onProgress({ kind: "cell", observation, note }),
      },
      row.cell === null ? null : (row.cell.id as CellId),
    );
    this.#stage = new Stage({
      services,
      claim,
      row,
      core: recovered.core,
      collect: () => this.lease.collect(),
      sequence: () => this.#sequence,
      onDone: (op) => this.#done(op),
    });
    this.#performer = new Performer({
      services,
      claim,
      lease: this.lease,
      conversations: recovered.conversations,
      modeOf: (turn) => this.#turns.modeOf(turn),
      onEvent: (event) => this.#deliver(event),
      onDropped: (given) => this.#dropped.push(given),
      onTrouble: (trouble) => this.#fail(trouble),
      onIdle: () => this.#wake(),
    });
  }

  /** Makes a session, and drives it. Faults: `exists`, `corrupt`. */
  static async begin(services: Services, made: NewSession): Promise<Result<Driver>> {
    const claim = await services.store.create(made, services.holder);
    if (!claim.ok) return claim;
    const row = newRow(made, services.holder);
    const fresh = untouched(services.core, row);
    return fresh.ok ? ok(new Driver(services, row, claim.value, fresh.value)) : fresh;
  }

  /** Claims a session and rebuilds it. Faults: `unknown_id`, `in_use`, `diverged`, `corrupt`, … */
  static async open(services: Services, id: SessionId): Promise<Result<Driver>> {
    const { store } = services;
    const claim = await store.claim(id, services.holder, services.isAlive, services.now());
    if (!claim.ok) return claim;
    const row = await store.session(id);
    const recovered = row.ok ? await recover(store, services.core, row.value) : row;
    if (!row.ok || !recovered.ok) {
      // Another driver may have gone on meanwhile: then what was read is of no one moment.
      const stands = await store.settle(claim.value, []);
      await store.release(claim.value);
      if (!stands.ok) return stands;
      return recovered.ok ? (row as Result<never>) : recovered;
    }
    return ok(new Driver(services, row.value, claim.value, recovered.value));
  }

  /**
   * Goes on where the session stopped, then runs the prompt where one is given, and answers with how
   * the last turn ended: with no prompt, and nothing to go on with, the one that ended before. A prompt
   * that finds a question open, from before, answers it: then it is the turn in flight whose end is
   * answered. Aborting cancels the turn in flight. After a fault the session is whole: it can be opened
   * again, and goes on from there. Fault `usage`: the session has had no turn at all.
   */
  async run(prompt: Prompt | null, signal: AbortSignal): Promise<Result<TurnEnd>> {
    const stop = (): void => {
      this.#stopping = true;
      this.#wake();
    };
    this.#stopping = signal.aborted;
    signal.addEventListener("abort", stop, { once: true });
    try {
      const { open } = this.#left;
      const isAnswer =
        prompt !== null &&
        !signal.aborted &&
        mayAnswer(prompt) &&
        open.some(({ action }) => action.op.kind === "question");
      const resumed = await this.#resume(isAnswer ? this.#turns.next(prompt) : null);
      if (!resumed.ok) return resumed;
      if (prompt !== null && !isAnswer && !signal.aborted) {
        this.#deliver(this.#turns.next(prompt));
        const pumped = await this.#pump();
        if (!pumped.ok) return pumped;
      }
    } finally {
      signal.removeEventListener("abort", stop);
    }
    // Nothing is on its way any more: what came late is in the account of its turn.
    const { tallies, last } = this.#recovered;
    const end = tallies.last(this.session) ?? (prompt === null ? last : null);
    if (end !== null) return ok(end);
    const mend = `give a prompt: dev resume ${this.session} PROMPT`;
    return fail(fault("usage", "the session has had no prompt yet", this.session, mend));
  }

  /**
   * Puts a message in front of the model at its next call; a question that is open takes it for its answer.
   * May be called at any time. Resolves once the message is durable, which it is once and for all:
   * soon while `run` runs, and else when it runs next. Faults: `too_large`, `unavailable` when the
   * driver was closed first, and whatever ended the run: then it may be, or not.
   */
  async steer(text: string): Promise<Result<void>> {
    if (this.#isClosed) return fail(this.#closedFault());
    const taken = this.#inbox.steer(text);
    this.#wake();
    return taken;
  }

  /** Gives the session and its cell back. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#performer.stop();
    this.#inbox.close(this.#closedFault());
    await this.lease.close();
    this.#recovered.core.close();
    // Where this fails the session stays claimed, by a holder that is soon no more: the next one gets it.
    await this.#services.store.release(this.#claim);
  }

  #closedFault(): Fault {
    const message = "the session's driver was closed before it took the message";
    return fault("unavailable", message, this.session, `dev resume ${this.session} "…"`);
  }

  /** Takes up what the last driver left: what it had dispatched first of all. */
  async #resume(answer: Event | null): Promise<Result<void>> {
    const { open, stale, overtaken } = this.#left;
    this.#left = { open: [], stale: [], overtaken: null };
    const settled = await this.#giveUp(stale);
    if (!settled.ok) return settled;
    if (this.#turn !== null) {
      this.#services.onProgress({ kind: "turn_started", turn: this.#turn });
    }
    for (const member of this.#recovered.roster.members()) {
      this.#services.onProgress({ kind: "agent_started", member });
    }
    if (overtaken !== null) {
      const ended = await this.#overtake(overtaken.questions, overtaken.text);
      if (!ended.ok) return ended;
    }
    this.#held = open;
    if (answer !== null) {
      const accepted = await this.#accept(sound(answer));
      if (!accepted.ok) return accepted;
    }
    // What the prompt did not answer after all is asked as ever.
    const rest = this.#held;
    this.#held = [];
    const performed = await this.#perform(rest);
    return performed.ok ? this.#pump() : performed;
  }

  /** Ends questions that a message has answered: nobody is asked any more, and the ledger says so. */
  async #overtake(questions: readonly OpenAction[], text: string): Promise<Result<void>> {
    if (questions.length === 0) return ok(undefined);
    const atMs = this.#services.now();
    const settled = questions.map((given) => settledByMessage(given, text, atMs));
    const written = await this.#services.store.settle(this.#claim, settled);
    if (!written.ok) return written;
    for (const { action } of questions) {
      this.#services.onProgress({ kind: "overtaken", action, text });
    }
    return ok(undefined);
  }

  /** Ends, in the ledger, actions whose turn ended before their answer came. */
  async #giveUp(given: readonly OpenAction[]): Promise<Result<void>> {
    if (given.length === 0) return ok(undefined);
    const atMs = this.#services.now();
    const settled = given.map((each) => settledUnanswered(each, atMs));
    return this.#services.store.settle(this.#claim, settled);
  }

  /** Steps the core through what arrives, until nothing is on its way. */
  async #pump(): Promise<Result<void>> {
    for (;;) {
      if (this.#trouble instanceof Error) throw this.#trouble;
      const event = this.#stop() ?? this.#inbox.take();
      if (event !== undefined) {
        const accepted = await this.#accept(event);
        this.#inbox.settle(event, accepted);
        if (!accepted.ok) return accepted;
        const kept = await this.#stage.keep(event, this.#performer.hasEffects);
        if (!kept.ok) return kept;
        continue;
      }
      const dropped = await this.#giveUp(this.#dropped.splice(0));
      if (!dropped.ok) return dropped;
      if (!this.#inbox.isEmpty || this.#dropped.length > 0) continue;
      if (this.#performer.idle || this.#trouble !== null) break;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    // What stood in the way of a turn that was then stopped stands in nobody's way.
    const { hasEnded } = this.#recovered.tallies;
    const isMoot = this.#stopping && this.#turn === null && hasEnded;
    const trouble = isMoot ? null : this.#trouble;
    this.#trouble = null;
    return trouble === null ? ok(undefined) : fail(trouble);
  }

  /**
   * The event that stops the turn in flight, when it is to be stopped. A model call is stopped first,
   * and its answer ends the turn: what had arrived of it is kept.
   */
  #stop(): Event | undefined {
    const turn = this.#turn;
    if (!this.#stopping || turn === null || this.#stopped === turn) return undefined;
    if (this.#performer.stopModels()) return undefined;
    this.#stopped = turn;
    return { kind: "cancel", turn };
  }

  #deliver(event: Event): void {
    this.#inbox.put(event);
    this.#wake();
  }

  #fail(trouble: Fault | Error): void {
    this.#trouble ??= trouble;
    this.#wake();
  }

  /** Takes one event: steps the core, writes the event with what it minted, and performs that. */
  async #accept(event: Event): Promise<Result<void>> {
    const { store, now } = this.#services;
    const answered = answeredId(event);
    const action = answered === null ? null : this.#performer.finish(answered);
    // It answers a question that a message has answered meanwhile: nothing waits for it.
    if (answered !== null && action === null) return ok(undefined);
    const isLate = action?.late === true;
    // What a model used counts whenever it is heard of, so that the core hears of it too.
    if (isLate && event.kind !== "model") return this.#recordLate(action.action, event);
    const stepped = this.#recovered.core.step(event);
    if (!stepped.ok) return stepped;
    const minted = stepped.value;
    const atMs = now();
    const state = stateAfter(event, minted, this.#state, this.#turn);
    const expect = this.#sequence;
    const begun = minted.filter(({ op }) => !isEffect(op));
    const dispatches = begun.map(({ id }) => ({ id, attempt: 1, spool: "", atMs }));
    const entry = { expect, event, minted, dispatches, state, atMs };
    const written = await store.append(this.#claim, entry);
    if (!written.ok) return written;
    this.#sequence += 1;
    this.#state = state;
    if (event.kind === "turn") this.#turns.take(event);
    const text = answerIn({ event, minted });
    if (text !== null) {
      const isQuestion = ({ action }: OpenAction): boolean => action.op.kind === "question";
      const questions = [...this.#held.filter(isQuestion), ...this.#performer.endQuestions()];
      this.#held = this.#held.filter((given) => !isQuestion(given));
      const overtaken = await this.#overtake(questions, text);
      if (!overtaken.ok) return overtaken;
    }
    if (action !== null) this.#answered(action.action, event, isLate);
    for (const each of minted) {
      this.#recovered.tallies.mint(each);
      if (each.op.kind === "model") this.#asked(each);
    }
    const performed = await this.#perform(
      minted.map((each) => ({
        action: each,
        standing: { kind: isEffect(each.op) ? "minted" : "begun" },
      })),
    );
    if (!isLate) this.#rest({ answered: action?.action ?? null, event, minted });
    return performed;
  }

  #answered(action: Action, event: Event, isLate: boolean): void {
    const { tallies, roster } = this.#recovered;
    this.#performer.acknowledge(action);
    tallies.take(action, event);
    if (!isLate) roster.hear(action, event);
    this.#services.onProgress({ kind: isLate ? "late" : "answered", action, event });
  }

  /** Tells of sub-agents that have come to their end with this event. */
  #rest(step: MemberStep): void {
    const held = this.#held.map(({ action }) => action.agent);
    const busy = new Set([...held, ...this.#performer.agents()]);
    for (const [member, end] of this.#recovered.roster.ends(busy, step)) {
      this.#services.onProgress({ kind: "agent_ended", member, end });
    }
  }

  /** The core asks a model, and so says which turn is in flight. */
  #asked(action: Action): void {
    const { conversations, roster } = this.#recovered;
    const { onProgress } = this.#services;
    conversations.take(action);
    if (this.#turn !== action.turn) {
      this.#turn = action.turn;
      onProgress({ kind: "turn_started", turn: action.turn });
    }
    const member = roster.ask(action);
    if (member !== null) onProgress({ kind: "agent_started", member });
  }

  /** Performs a batch: what needs no one else here, the rest by the performer. */
  async #perform(batch: readonly OpenAction[]): Promise<Result<void>> {
    const here = batch.filter(({ action }) => familyOf(action.op) === "none");
    const away = batch.filter(({ action }) => familyOf(action.op) !== "none");
    // A turn's end is performed first, since what follows it in a batch belongs to the next turn.
    if (here.length > 0) {
      const performed = await this.#stage.perform(here);
      if (!performed.ok) return performed;
    }
    this.#performer.start(away);
    return ok(undefined);
  }

  #done(op: DoneOp): void {
    const { tallies, conversations, roster } = this.#recovered;
    tallies.done(op);
    if (this.#turn === op.turn) this.#turn = null;
    this.#performer.retire(op.turn);
    this.#dropped.push(...this.#held.filter(({ action }) => action.turn === op.turn));
    this.#held = this.#held.filter(({ action }) => action.turn !== op.turn);
    conversations.retire(op.turn);
    roster.retire(op.turn);
    this.#services.onProgress({ kind: "turn_ended", turn: op.turn });
  }

  /** A call of a turn that has ended has its result: the ledger gets it, and the core does not. */
  async #recordLate(action: Action, event: Event): Promise<Result<void>> {
    const settled = settledLate(action.id, event, this.#services.now());
    const written = await this.#services.store.settle(this.#claim, [settled]);
    if (!written.ok) return written;
    this.#performer.acknowledge(action);
    this.#services.onProgress({ kind: "late", action, event });
    return written;
  }
}
