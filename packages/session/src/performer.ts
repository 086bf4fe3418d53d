// Long because every way in which an action is performed has its place in one order.
import type { Link } from "@dev/cell";
import type {
  Action,
  ActionId,
  AgentId,
  BrowseOp,
  Event,
  Fault,
  Mode,
  Outcome,
  Result,
  TurnId,
} from "@dev/protocol";
import { type EffectOp, effectFamily, isEffect } from "@dev/protocol";
import type { Claim, Dispatch } from "@dev/store";
import { isOperation } from "./argv.ts";
import { effectsByAgent, isCommand } from "./batch.ts";
import type { Conversations } from "./conversation.ts";
import { Gate } from "./gate.ts";
import type { Lease } from "./lease.ts";
import { operate } from "./operation.ts";
import { Places } from "./places.ts";
import { pathOf, type Verdict, visible } from "./policy.ts";
import type { OpenAction, Standing } from "./recovery.ts";
import type { Services } from "./services.ts";

export type PerformerTerms = {
  readonly services: Services;
  readonly claim: Claim;
  readonly lease: Lease;
  readonly conversations: Conversations;
  readonly modeOf: (turn: TurnId) => Mode;
  readonly onEvent: (event: Event) => void;
  /** An action's turn has ended, and there will be no answer to it. */
  readonly onDropped: (given: OpenAction) => void;
  /** What stands in the way of going on; an `Error` is a bug of ours. */
  readonly onTrouble: (trouble: Fault | Error) => void;
  /** A task has ended: whoever waits for `idle` looks again. */
  readonly onIdle: () => void;
};

/** How often an effect follows its cell to a new link before the run is given up. */
export const RELINK_LIMIT = 3;
/** Model calls at a time; an agent's call beyond them waits for a place. */
export const MODEL_CALL_LIMIT = 8;

type InFlight = {
  readonly action: Action;
  readonly controller: AbortController;
  link: Link | null;
  /** Its turn has ended: the answer is for the ledger alone. */
  late: boolean;
};

/**
 * Performs the actions that something outside the core answers, many at once: models, effects in
 * the cell, questions to a person. Policy comes before dispatch, and dispatch before the effect.
 */
export class Performer {
  readonly #terms: PerformerTerms;
  readonly #gate: Gate;
  readonly #inFlight = new Map<ActionId, InFlight>();
  readonly #modelCalls = new Places(MODEL_CALL_LIMIT);
  /** Effects on their way, whichever agent asked for them; and the commands among them. */
  readonly #effectTasks = new Set<Promise<void>>();
  readonly #commands = new Set<Promise<void>>();
  /** Links of actions that are answered, but not yet acknowledged. */
  readonly #written = new Map<ActionId, Link>();
  /** What was given up, and is for the next driver unless its turn ends. */
  readonly #abandoned: OpenAction[] = [];
  #taskCount = 0;
  #stopped = false;

  constructor(terms: PerformerTerms) {
    this.#terms = terms;
    this.#gate = new Gate(terms);
  }

  /** Whether nothing is on its way. */
  get idle(): boolean {
    return this.#inFlight.size === 0 && this.#taskCount === 0;
  }

  /** Whether a cell is at work, or is about to be. */
  get hasEffects(): boolean {
    return [...this.#inFlight.values()].some(({ action }) => isEffect(action.op));
  }

  /** Begins a batch; the answers arrive as events, in any order. */
  start(batch: readonly OpenAction[]): void {
    for (const { action } of batch) {
      const controller = new AbortController();
      this.#inFlight.set(action.id, { action, controller, link: null, late: false });
    }
    for (const { action, standing } of batch) {
      if (action.op.kind === "model") void this.#task(() => this.#ask(action, standing));
      if (action.op.kind === "question") void this.#task(() => this.#question(action, standing));
    }
    for (const effects of effectsByAgent(batch)) void this.#task(() => this.#effects(effects));
  }

  /** Takes an action off the list, since its event has arrived. */
  finish(id: ActionId): { readonly action: Action; readonly late: boolean } | null {
    const flight = this.#inFlight.get(id);
    if (flight === undefined) return null;
    this.#inFlight.delete(id);
    const { link } = flight;
    if (link !== null) this.#written.set(id, link);
    return flight;
  }

  /** Says that an action's answer is safe in the store: its cell need not keep it any longer. */
  acknowledge({ id, op }: Action): void {
    const { services, claim } = this.#terms;
    this.#written.get(id)?.acknowledge([id]);
    this.#written.delete(id);
    if (isOperation(op)) services.operations?.forget(claim.session, id);
  }

  /** Stops the model calls in flight; false when there are none. */
  stopModels(): boolean {
    let stopped = false;
    for (const { action, controller, late } of this.#inFlight.values()) {
      if (action.op.kind !== "model" || late) continue;
      stopped = true;
      controller.abort();
    }
    return stopped;
  }

  /** The agents that wait for something. */
  agents(): ReadonlySet<AgentId> {
    const waiting = [...this.#inFlight.values()].filter(({ late }) => !late);
    return new Set(waiting.map(({ action }) => action.agent));
  }

  /** Takes the questions off the list, since a message has answered them, and ends the asking. */
  endQuestions(): readonly OpenAction[] {
    const questions: OpenAction[] = [];
    for (const { action, controller, late } of this.#inFlight.values()) {
      if (action.op.kind !== "question" || late) continue;
      this.#inFlight.delete(action.id);
      controller.abort();
      questions.push({ action, standing: { kind: "begun" } });
    }
    return questions;
  }

  /** Cancels what is on its way for a turn that has ended. */
  retire(turn: TurnId): void {
    for (const flight of this.#inFlight.values()) {
      if (flight.action.turn !== turn) continue;
      flight.late = true;
      flight.controller.abort();
    }
    for (const given of this.#abandoned.splice(0)) {
      if (given.action.turn === turn) this.#terms.onDropped(given);
      else this.#abandoned.push(given);
    }
  }

  /** Ends it all: nothing that arrives from now on is heard. */
  stop(): void {
    this.#stopped = true;
    for (const { controller } of this.#inFlight.values()) controller.abort();
  }

  /** Runs a task on the side; what it answers with never rejects. */
  #task(run: () => Promise<void>): Promise<void> {
    this.#taskCount += 1;
    return run()
      .catch((error: unknown) => {
        this.#trouble(error instanceof Error ? error : new Error(String(error)));
      })
      .finally(() => {
        this.#taskCount -= 1;
        if (!this.#stopped) this.#terms.onIdle();
      });
  }

  #deliver(event: Event): void {
    if (!this.#stopped) this.#terms.onEvent(event);
  }

  #trouble(trouble: Fault | Error): void {
    if (!this.#stopped) this.#terms.onTrouble(trouble);
  }

  /** Gives an action up without an answer: it stays open in the ledger, for the next driver. */
  #abandon(given: OpenAction, trouble: Fault): void {
    const isLate = this.#inFlight.get(given.action.id)?.late === true;
    this.#inFlight.delete(given.action.id);
    if (isLate && !this.#stopped) this.#terms.onDropped(given);
    else {
      this.#abandoned.push(given);
      this.#trouble(trouble);
    }
  }

  #drop(given: OpenAction): void {
    this.#inFlight.delete(given.action.id);
    if (!this.#stopped) this.#terms.onDropped(given);
  }

  #signal(action: Action): AbortSignal {
    return this.#inFlight.get(action.id)?.controller.signal ?? AbortSignal.abort();
  }

  async #dispatch(dispatches: readonly Omit<Dispatch, "atMs">[]): Promise<Result<void>> {
    const { services, claim } = this.#terms;
    const atMs = services.now();
    return services.store.dispatch(
      claim,
      dispatches.map((each) => ({ ...each, atMs })),
    );
  }

  async #ask(action: Action, standing: Standing): Promise<void> {
    const { conversations, services } = this.#terms;
    const { router, onProgress } = services;
    const before = standing.kind === "dispatched" ? standing.attempt : 0;
    if (standing.kind !== "begun") {
      const first = await this.#dispatch([{ id: action.id, attempt: before + 1, spool: "" }]);
      if (!first.ok) return this.#abandon({ action, standing }, first.fault);
    }
    const ask = conversations.ask(action.agent);
    if (action.op.kind === "model" && action.op.purpose === "compact") {
      onProgress({ kind: "compacting", action, extent: conversations.extent(action.agent) });
    }
    const leave = await this.#modelCalls.take();
    onProgress({ kind: "started", action });
    const answered = await router
      .ask(
        ask,
        (delta) => onProgress({ kind: "delta", action, delta }),
        async (attempt, after) => {
          if (attempt === 1) return;
          const again = { id: action.id, attempt: before + attempt, spool: "" };
          const written = await this.#dispatch([again]);
          if (!written.ok) this.#trouble(written.fault);
          else if (after !== null) onProgress({ kind: "retried", action, after });
        },
        this.#signal(action),
      )
      .finally(leave);
    this.#deliver({ kind: "model", id: action.id, ...answered });
  }

  async #question(action: Action, standing: Standing): Promise<void> {
    const { asker, onProgress } = this.#terms.services;
    if (standing.kind === "minted") {
      const written = await this.#dispatch([{ id: action.id, attempt: 1, spool: "" }]);
      if (!written.ok) return this.#abandon({ action, standing }, written.fault);
    }
    onProgress({ kind: "started", action });
    const signal = this.#signal(action);
    const answer = asker === null ? null : await asker.answer(action, signal);
    if (answer === null && !signal.aborted) onProgress({ kind: "unanswered", action });
    const { text, choices } = answer ?? { text: NOBODY, choices: [] };
    this.#deliver({ kind: "reply", id: action.id, text, choices });
  }

  /**
   * An agent's effects of one batch, in its order: one dispatch for all that need no question. What comes
   * after a question waits for its answer, since it may build on what is asked about; and a path waits
   * for the end of every command, of other agents too, since a link that one leaves behind decides what
   * the path means. (The cell has whatever comes after a command wait for it anyway.)
   */
  async #effects(batch: readonly OpenAction[]): Promise<void> {
    const linked = await this.#terms.lease.link();
    if (!linked.ok) {
      for (const given of batch) this.#abandon(given, linked.fault);
      return;
    }
    const link = linked.value;
    const allowed: Action[] = [];
    const launch = (): Promise<void> => this.#launch(allowed.splice(0), link);
    for (const { action, standing } of batch) {
      if (isOperation(action.op as EffectOp)) {
        await launch();
        await this.#operation({ action, standing }, link);
        continue;
      }
      if (standing.kind === "dispatched") {
        // No cell has a record of what is performed outside all cells.
        if (action.op.kind === "browse") this.#answer(action, { kind: "unknown", known: UNHEARD });
        else this.#begin(action, link, standing.spool);
        continue;
      }
      if (pathOf(action.op as EffectOp) !== null) {
        // What is allowed goes before the wait: it is allowed as things are now.
        if (this.#commands.size > 0 || allowed.some(isCommand)) await launch();
        while (this.#commands.size > 0) await Promise.all(this.#commands);
      }
      // Its turn was stopped while the cell was made ready: nobody is to be asked about it.
      if (this.#signal(action).aborted) {
        this.#drop({ action, standing });
        continue;
      }
      const verdict = this.#gate.judge(action, link);
      if (verdict.kind === "ask") await launch();
      if (await this.#isAllowed(action, verdict)) allowed.push(action);
    }
    await launch();
  }

  /** Whether an action may go; what may not is refused here, and what is to be asked about is asked. */
  async #isAllowed(action: Action, verdict: Verdict): Promise<boolean> {
    if (verdict.kind === "allow") return true;
    const signal = this.#signal(action);
    const refusal = await this.#gate.refusal(action, verdict, signal);
    if (refusal === null) return true;
    if (refusal.kind === "moot") this.#drop({ action, standing: MINTED });
    else this.#answer(action, refusal);
    return false;
  }

  #answer(action: Action, outcome: Outcome): void {
    this.#deliver({ kind: effectFamily(action.op as EffectOp), id: action.id, outcome });
  }

  /** Dispatches actions and begins them. */
  async #launch(actions: readonly Action[], link: Link): Promise<void> {
    const going: Action[] = [];
    for (const action of actions) {
      if (this.#signal(action).aborted) this.#drop({ action, standing: MINTED });
      else going.push(action);
    }
    if (going.length === 0) return;
    const written = await this.#dispatch(
      going.map(({ id }) => ({ id, attempt: 1, spool: link.spool })),
    );
    for (const action of going) {
      if (written.ok) this.#begin(action, link, link.spool);
      else this.#abandon({ action, standing: MINTED }, written.fault);
    }
  }

  /** Begins an effect that was dispatched under this spool. */
  #begin(action: Action, link: Link, spool: string): void {
    const { op } = action;
    this.#watch(
      this.#task(() =>
        op.kind === "browse" ? this.#browse(action, op) : this.#perform(action, link, spool, 0),
      ),
      isCommand(action),
    );
  }

  #watch(task: Promise<void>, isCommand: boolean): void {
    const lists = isCommand ? [this.#effectTasks, this.#commands] : [this.#effectTasks];
    for (const list of lists) list.add(task);
    void task.then(() => lists.map((list) => list.delete(task)));
  }

  /** An operation sees what began before it; what comes after it in its batch sees the operation. */
  async #operation(given: OpenAction, link: Link): Promise<void> {
    const { action, standing } = given;
    if (standing.kind !== "dispatched") {
      if (this.#signal(action).aborted) return this.#drop(given);
      if (!(await this.#isAllowed(action, this.#gate.judge(action, link)))) return;
    }
    const earlier = [...this.#effectTasks];
    const { lease, claim, services } = this.#terms;
    const task = this.#task(async () => {
      await Promise.all(earlier);
      const operated = await operate(given, {
        services,
        session: claim.session,
        workspace: lease.workspace,
        dispatch: () => this.#dispatch([{ id: action.id, attempt: 1, spool: "" }]),
        signal: this.#signal(action),
      });
      if (operated.kind === "answered") this.#answer(action, operated.outcome);
      else if (operated.kind === "dropped") this.#drop(given);
      else this.#abandon(given, operated.fault);
    });
    this.#watch(task, true);
    await task;
  }

  async #browse(action: Action, op: BrowseOp): Promise<void> {
    const { browse, onProgress } = this.#terms.services;
    if (browse === null) throw new Error("a request that nothing performs was allowed");
    onProgress({ kind: "started", action });
    this.#answer(action, await browse(op, action.id, this.#signal(action)));
  }

  /** Performs an effect that was dispatched under this spool: another one cannot be asked about it. */
  async #perform(action: Action, link: Link, spool: string, relinks: number): Promise<void> {
    if (link.spool !== spool) {
      return this.#answer(action, { kind: "unknown", known: "The cell that had it is lost." });
    }
    const standing = { kind: "dispatched", attempt: 1, spool } as const;
    const { onProgress } = this.#terms.services;
    const flight = this.#inFlight.get(action.id);
    if (flight !== undefined) flight.link = link;
    if (relinks === 0) onProgress({ kind: "started", action });
    const performed = await link.perform(
      action,
      (stream, text) => onProgress({ kind: "output", action, stream, text }),
      this.#signal(action),
    );
    if (performed.ok) return this.#deliver(visible(performed.value, this.#terms.services.rules));
    this.#terms.lease.lost(link);
    if (this.#stopped) return;
    if (performed.fault.code !== "link_lost" || relinks >= RELINK_LIMIT) {
      return this.#abandon({ action, standing }, performed.fault);
    }
    const next = await this.#terms.lease.link();
    if (!next.ok) return this.#abandon({ action, standing }, next.fault);
    return this.#perform(action, next.value, spool, relinks + 1);
  }
}

const UNHEARD = "The request was made, or may have been, and the driver ended before its answer.";
const MINTED: Standing = { kind: "minted" };
const NOBODY = "(nobody is there to answer: go on without, or stop and say what is needed)";
