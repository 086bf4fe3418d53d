import type { Link } from "@dev/cell";
import type { Action, ActionId, Event, Fault, Mode, Outcome, Result, TurnId } from "@dev/protocol";
import { type EffectOp, effectFamily, isEffect } from "@dev/protocol";
import type { Claim, Dispatch } from "@dev/store";
import type { Conversations } from "./conversation.ts";
import type { Lease } from "./lease.ts";
import {
  covers,
  decide,
  type Likeness,
  likeness,
  pathOf,
  type Verdict,
  visible,
} from "./policy.ts";
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
  readonly #inFlight = new Map<ActionId, InFlight>();
  /** What a person has permitted for as long as this driver lives. */
  readonly #permits: Likeness[] = [];
  /** Links of actions that are answered, but not yet acknowledged. */
  readonly #written = new Map<ActionId, Link>();
  /** What was given up, and is for the next driver unless its turn ends. */
  readonly #abandoned: OpenAction[] = [];
  #taskCount = 0;
  #stopped = false;

  constructor(terms: PerformerTerms) {
    this.#terms = terms;
  }

  /** Whether nothing is on its way. */
  get idle(): boolean {
    return this.#inFlight.size === 0 && this.#taskCount === 0;
  }

  /** Begins a batch; the answers arrive as events, in any order. */
  start(batch: readonly OpenAction[]): void {
    for (const { action } of batch) {
      const controller = new AbortController();
      this.#inFlight.set(action.id, { action, controller, link: null, late: false });
    }
    const effects = batch.filter(({ action }) => isEffect(action.op));
    for (const { action, standing } of batch) {
      if (action.op.kind === "model") void this.#task(() => this.#ask(action, standing));
      if (action.op.kind === "question") void this.#task(() => this.#question(action, standing));
    }
    if (effects.length > 0) void this.#task(() => this.#effects(effects));
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
  acknowledge(id: ActionId): void {
    this.#written.get(id)?.acknowledge([id]);
    this.#written.delete(id);
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
    const { router, onProgress } = this.#terms.services;
    const before = standing.kind === "dispatched" ? standing.attempt : 0;
    if (standing.kind !== "begun") {
      const first = await this.#dispatch([{ id: action.id, attempt: before + 1, spool: "" }]);
      if (!first.ok) return this.#abandon({ action, standing }, first.fault);
    }
    onProgress({ kind: "started", action });
    const { answer, usage } = await router.ask(
      this.#terms.conversations.ask(action.agent),
      (delta) => onProgress({ kind: "delta", action, delta }),
      async (attempt, after) => {
        if (attempt === 1) return;
        const again = { id: action.id, attempt: before + attempt, spool: "" };
        const written = await this.#dispatch([again]);
        if (!written.ok) this.#trouble(written.fault);
        else if (after !== null) onProgress({ kind: "retried", action, after });
      },
      this.#signal(action),
    );
    this.#deliver({ kind: "model", id: action.id, answer, usage });
  }

  async #question(action: Action, standing: Standing): Promise<void> {
    const { asker, onProgress } = this.#terms.services;
    if (standing.kind === "minted") {
      const written = await this.#dispatch([{ id: action.id, attempt: 1, spool: "" }]);
      if (!written.ok) return this.#abandon({ action, standing }, written.fault);
    }
    onProgress({ kind: "started", action });
    const answer = asker === null ? null : await asker.answer(action, this.#signal(action));
    const { text, choices } = answer ?? { text: NOBODY, choices: [] };
    this.#deliver({ kind: "reply", id: action.id, text, choices });
  }

  /**
   * Effects of one batch, in its order: one dispatch for all that need no question. What comes after a
   * question waits for its answer, since it may build on what is asked about; and a path after a command
   * waits for the command's end, since a link that it leaves behind decides what the path means.
   */
  async #effects(batch: readonly OpenAction[]): Promise<void> {
    const linked = await this.#terms.lease.link();
    if (!linked.ok) {
      for (const given of batch) this.#abandon(given, linked.fault);
      return;
    }
    const link = linked.value;
    const allowed: Action[] = [];
    const commands: Promise<void>[] = [];
    const launch = async (): Promise<void> => {
      commands.push(...(await this.#launch(allowed.splice(0), link)));
    };
    for (const { action, standing } of batch) {
      if (standing.kind === "dispatched") {
        const task = this.#task(() => this.#perform(action, link, standing.spool, 0));
        if (isCommand(action)) commands.push(task);
        continue;
      }
      if (pathOf(action.op as EffectOp) !== null) {
        if (allowed.some(isCommand)) await launch();
        await Promise.all(commands.splice(0));
      }
      // Its turn was stopped while the cell was made ready: nobody is to be asked about it.
      if (this.#signal(action).aborted) {
        this.#drop({ action, standing });
        continue;
      }
      const verdict = this.#judge(action, link);
      if (verdict.kind === "ask") await launch();
      if (await this.#isAllowed(action, verdict)) allowed.push(action);
    }
    await launch();
  }

  /** What policy says here and now: with what a person has permitted, and with who can be asked. */
  #judge(action: Action, link: Link): Verdict {
    const op = action.op as EffectOp;
    if (op.kind === "browse" || op.kind === "tool") {
      return { kind: "deny", rule: "no performer", reason: `nothing here performs ${op.kind}` };
    }
    const { services, modeOf } = this.#terms;
    const real = this.#real(action);
    const verdict = decide(op, real, modeOf(action.turn), link.boundary, services.rules);
    if (verdict.kind !== "ask") return verdict;
    const { rule, reason } = verdict;
    if (this.#permits.some((permit) => covers(permit, op, real))) return { kind: "allow", rule };
    if (services.asker !== null) return verdict;
    return { kind: "deny", rule, reason: `${reason}; ${UNATTENDED}` };
  }

  /** What an action's path names behind the workspace's links; null when it has none. */
  #real(action: Action): string | null {
    const { lease, services } = this.#terms;
    const path = pathOf(action.op as EffectOp);
    if (path === null) return null;
    if (lease.workspace === null) throw new Error("a cell is linked before its workspace is known");
    return services.resolve(lease.workspace, path);
  }

  /** Whether an action may go; what may not is refused here, and what is to be asked about is asked. */
  async #isAllowed(action: Action, verdict: Verdict): Promise<boolean> {
    if (verdict.kind === "allow") return true;
    const { rule, reason } = verdict;
    if (verdict.kind === "deny") {
      this.#refuse(action, rule, reason);
      return false;
    }
    const signal = this.#signal(action);
    // As it is while it is asked about: a link that changes meanwhile is not what was permitted.
    const alike = likeness(action.op as EffectOp, this.#real(action));
    const permit = await this.#terms.services.asker?.permit(action, reason, signal);
    if (signal.aborted) {
      this.#drop({ action, standing: MINTED });
      return false;
    }
    if (permit === undefined || permit.kind === "no") {
      const words = permit?.message ?? "";
      const said = words === "" ? "a person said no" : `a person said no: ${words}`;
      this.#refuse(action, rule, said);
      return false;
    }
    if (permit.kind === "session") this.#permits.push(alike);
    return true;
  }

  #refuse(action: Action, rule: string, reason: string): void {
    this.#answer(action, { kind: "refused", rule, reason });
  }

  #answer(action: Action, outcome: Outcome): void {
    this.#deliver({ kind: effectFamily(action.op as EffectOp), id: action.id, outcome });
  }

  /** Dispatches actions and begins them; the tasks of those that are commands. */
  async #launch(actions: readonly Action[], link: Link): Promise<readonly Promise<void>[]> {
    const going: Action[] = [];
    for (const action of actions) {
      if (this.#signal(action).aborted) this.#drop({ action, standing: MINTED });
      else going.push(action);
    }
    if (going.length === 0) return [];
    const commands: Promise<void>[] = [];
    const written = await this.#dispatch(
      going.map(({ id }) => ({ id, attempt: 1, spool: link.spool })),
    );
    for (const action of going) {
      if (!written.ok) {
        this.#abandon({ action, standing: MINTED }, written.fault);
        continue;
      }
      const task = this.#task(() => this.#perform(action, link, link.spool, 0));
      if (isCommand(action)) commands.push(task);
    }
    return commands;
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

function isCommand({ op }: Action): boolean {
  return op.kind === "exec" || op.kind === "git";
}

const MINTED: Standing = { kind: "minted" };
const NOBODY = "(nobody is there to answer: go on without, or stop and say what is needed)";
const UNATTENDED = "nobody is there to be asked";
