import type {
  Action,
  ActionId,
  CellId,
  Event,
  Fault,
  Image,
  Mode,
  Result,
  TurnId,
} from "@dev/protocol";
import { fail, familyOf, fault, isEffect, ok, type SessionId, turnId } from "@dev/protocol";
import type { Claim, NewSession, Session as SessionRow, SessionState, Settled } from "@dev/store";
import { Lease } from "./lease.ts";
import { Performer } from "./performer.ts";
import type { TurnEnd } from "./progress.ts";
import { type OpenAction, type Recovered, recover, untouched } from "./recovery.ts";
import type { Services } from "./services.ts";
import { sound } from "./sound.ts";

export type Prompt = {
  readonly text: string;
  readonly images: readonly Image[];
  /** Null: that of the session's last turn, and `firstMode` where it has had none. */
  readonly mode: Mode | null;
  readonly firstMode: Mode;
};

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
  readonly #lease: Lease;
  readonly #inbox: Event[] = [];
  /** What will have no answer, its turn having ended, and has no line that says so yet. */
  readonly #dropped: OpenAction[] = [];
  readonly #ends: TurnEnd[] = [];
  readonly #modes: Map<TurnId, Mode>;
  #sequence: number;
  #state: SessionState;
  /** The turn in flight. */
  #turn: TurnId | null;
  #stopping = false;
  /** The turn that has been told to stop, so that it is told once. */
  #stopped: TurnId | null = null;
  #trouble: Fault | Error | null = null;
  #wake: () => void = () => {};

  private constructor(services: Services, row: SessionRow, claim: Claim, recovered: Recovered) {
    this.session = row.id;
    this.#services = services;
    this.#claim = claim;
    this.#recovered = recovered;
    this.#sequence = recovered.sequence;
    this.#state = row.state;
    this.#modes = new Map(recovered.modes);
    this.#turn =
      recovered.open.find(({ action }) => familyOf(action.op) !== "none")?.action.turn ?? null;
    this.#lease = new Lease(
      {
        vendor: services.vendor,
        newCellId: services.newCellId,
        spec: () => services.spec(row),
        attach: (id, workspace) => services.store.attach(claim, { id, workspace }),
        onObservation: (observation, note) =>
          services.onProgress({ kind: "cell", observation, note }),
      },
      row.cell === null ? null : (row.cell.id as CellId),
    );
    this.#performer = new Performer({
      services,
      claim,
      lease: this.#lease,
      conversations: recovered.conversations,
      modeOf: (turn) => this.#modes.get(turn) ?? "plan",
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
   * the last turn ended: with no prompt, and nothing to go on with, the one that ended before. Aborting
   * cancels the turn in flight. After a fault the session is whole: it can be opened again, and goes on
   * from there. Fault `usage`: the session has had no turn at all.
   */
  async run(prompt: Prompt | null, signal: AbortSignal): Promise<Result<TurnEnd>> {
    const stop = (): void => {
      this.#stopping = true;
      this.#wake();
    };
    this.#stopping = signal.aborted;
    signal.addEventListener("abort", stop, { once: true });
    try {
      const resumed = await this.#resume();
      if (!resumed.ok) return resumed;
      if (prompt !== null && !signal.aborted) {
        const { text, images } = prompt;
        const last = Math.max(0, ...this.#modes.keys());
        const mode = prompt.mode ?? this.#modes.get(turnId(last)) ?? prompt.firstMode;
        const id = turnId(last + 1);
        this.#deliver({ kind: "turn", id, prompt: text, images, mode });
        const pumped = await this.#pump();
        if (!pumped.ok) return pumped;
      }
    } finally {
      signal.removeEventListener("abort", stop);
    }
    const end = this.#ends.at(-1) ?? (prompt === null ? this.#recovered.last : null);
    if (end !== null) return ok(end);
    const mend = `give a prompt: dev resume ${this.session} PROMPT`;
    return fail(fault("usage", "the session has had no prompt yet", this.session, mend));
  }

  /** Gives the session and its cell back. */
  async close(): Promise<void> {
    this.#performer.stop();
    await this.#lease.close();
    this.#recovered.core.close();
    // Where this fails the session stays claimed, by a holder that is soon no more: the next one gets it.
    await this.#services.store.release(this.#claim);
  }

  /** Takes up what the last driver left: what it had dispatched first of all. */
  async #resume(): Promise<Result<void>> {
    const { open, stale } = this.#recovered;
    const settled = await this.#giveUp(stale);
    if (!settled.ok) return settled;
    if (this.#turn !== null) {
      this.#services.onProgress({ kind: "turn_started", turn: this.#turn });
    }
    if (open.length > 0) {
      const performed = await this.#perform(open);
      if (!performed.ok) return performed;
    }
    return this.#pump();
  }

  /** Ends, in the ledger, actions whose turn ended before their answer came. */
  async #giveUp(given: readonly OpenAction[]): Promise<Result<void>> {
    if (given.length === 0) return ok(undefined);
    const atMs = this.#services.now();
    const settled = given.map(({ action, standing }): Settled => {
      return standing.kind === "minted"
        ? { id: action.id, state: "refused", detail: "its turn ended before dispatch", atMs }
        : { id: action.id, state: "unknown", detail: "its turn ended before its answer", atMs };
    });
    return this.#services.store.settle(this.#claim, settled);
  }

  /** Steps the core through what arrives, until nothing is on its way. */
  async #pump(): Promise<Result<void>> {
    for (;;) {
      if (this.#trouble instanceof Error) throw this.#trouble;
      const event = this.#stop() ?? this.#inbox.shift();
      if (event !== undefined) {
        const accepted = await this.#accept(event);
        if (!accepted.ok) return accepted;
        continue;
      }
      const dropped = await this.#giveUp(this.#dropped.splice(0));
      if (!dropped.ok) return dropped;
      if (this.#inbox.length > 0 || this.#dropped.length > 0) continue;
      if (this.#performer.idle || this.#trouble !== null) break;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    // What stood in the way of a turn that was then stopped stands in nobody's way.
    const isMoot = this.#stopping && this.#turn === null && this.#ends.length > 0;
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
    this.#inbox.push(sound(event));
    this.#wake();
  }

  #fail(trouble: Fault | Error): void {
    this.#trouble ??= trouble;
    this.#wake();
  }

  /** Takes one event: steps the core, writes the event with what it minted, and performs that. */
  async #accept(event: Event): Promise<Result<void>> {
    const { store, onProgress, now } = this.#services;
    const answered = answeredId(event);
    const action = answered === null ? null : this.#performer.finish(answered);
    if (answered !== null && action?.late === true) return this.#recordLate(action.action, event);
    const stepped = this.#recovered.core.step(event);
    if (!stepped.ok) return stepped;
    const minted = stepped.value;
    const atMs = now();
    const state = stateAfter(event, minted, this.#state);
    const expect = this.#sequence;
    const begun = minted.filter(({ op }) => !isEffect(op));
    const dispatches = begun.map(({ id }) => ({ id, attempt: 1, spool: "", atMs }));
    const entry = { expect, event, minted, dispatches, state, atMs };
    const written = await store.append(this.#claim, entry);
    if (!written.ok) return written;
    this.#sequence += 1;
    this.#state = state;
    if (event.kind === "turn") this.#modes.set(event.id, event.mode);
    for (const each of minted) if (each.op.kind === "model") this.#asked(each);
    if (action !== null) {
      this.#performer.acknowledge(action.action.id);
      this.#recovered.tallies.take(action.action.turn, event);
      onProgress({ kind: "answered", action: action.action, event });
    }
    return this.#perform(
      minted.map((each) => ({
        action: each,
        standing: { kind: isEffect(each.op) ? "minted" : "begun" },
      })),
    );
  }

  /** The core asks a model, and so says which turn is in flight. */
  #asked(action: Action): void {
    this.#recovered.conversations.take(action);
    if (this.#turn === action.turn) return;
    this.#turn = action.turn;
    this.#services.onProgress({ kind: "turn_started", turn: action.turn });
  }

  /** Performs a batch: what needs no one else here, the rest by the performer. */
  async #perform(batch: readonly OpenAction[]): Promise<Result<void>> {
    const here = batch.filter(({ action }) => familyOf(action.op) === "none");
    const away = batch.filter(({ action }) => familyOf(action.op) !== "none");
    // A turn's end is performed first, since what follows it in a batch belongs to the next turn.
    if (here.length > 0) {
      const performed = await this.#performHere(here);
      if (!performed.ok) return performed;
    }
    this.#performer.start(away);
    return ok(undefined);
  }

  async #performHere(batch: readonly OpenAction[]): Promise<Result<void>> {
    const { store, now } = this.#services;
    const minted = batch.filter(({ standing }) => standing.kind === "minted");
    const dispatches = minted.map(({ action }) => ({
      id: action.id,
      attempt: 1,
      spool: "",
      atMs: now(),
    }));
    if (dispatches.length > 0) {
      const written = await store.dispatch(this.#claim, dispatches);
      if (!written.ok) return written;
    }
    const settled: Settled[] = [];
    for (const { action } of batch) {
      const shown = await this.#show(action);
      if (!shown.ok) return shown;
      settled.push({ id: action.id, state: "completed", detail: "", atMs: now() });
    }
    return store.settle(this.#claim, settled);
  }

  async #show(action: Action): Promise<Result<void>> {
    const { store, onProgress, now } = this.#services;
    const { op } = action;
    switch (op.kind) {
      case "emit":
        onProgress({ kind: "said", action, text: op.text });
        return ok(undefined);
      case "save": {
        const snapshot = this.#recovered.core.snapshot();
        if (!snapshot.ok) return snapshot;
        const sequence = this.#sequence;
        const save = { snapshot: snapshot.value, workspace: "", sequence, atMs: now() };
        return store.save(this.#claim, save);
      }
      case "done": {
        const end = this.#recovered.tallies.end(this.session, op);
        this.#ends.push(end);
        if (this.#turn === op.turn) this.#turn = null;
        this.#performer.retire(op.turn);
        onProgress({ kind: "turn_ended", end });
        return ok(undefined);
      }
      default:
        throw new Error(`action ${action.id} is not performed here`);
    }
  }

  /** A call of a turn that has ended has its result: the ledger gets it, and the core does not. */
  async #recordLate(action: Action, event: Event): Promise<Result<void>> {
    const detail = `late: ${JSON.stringify(event)}`.slice(0, LATE_DETAIL_LIMIT);
    const atMs = this.#services.now();
    const settled = { id: action.id, state: lateState(event), detail, atMs };
    const written = await this.#services.store.settle(this.#claim, [settled]);
    if (written.ok) this.#performer.acknowledge(action.id);
    return written;
  }
}

/** The row of a session that was just made. */
function newRow(made: NewSession, holder: string): SessionRow {
  const { createdMs: updatedMs } = made;
  return { ...made, updatedMs, sequence: 0, title: "", state: "new", cell: null, holder };
}

/** Of a late result, what the ledger keeps as its detail, in characters. */
const LATE_DETAIL_LIMIT = 16 * 1024;

function answeredId(event: Event): ActionId | null {
  switch (event.kind) {
    case "turn":
    case "timer":
    case "steer":
    case "cancel":
      return null;
    default:
      return event.id;
  }
}

/** What a late event says of its action, in the ledger's words. */
function lateState(event: Event): Settled["state"] {
  if (!("outcome" in event)) return "completed";
  const { kind } = event.outcome;
  return kind === "refused" || kind === "unknown" ? kind : "completed";
}

function stateAfter(event: Event, minted: readonly Action[], before: SessionState): SessionState {
  let state: SessionState = event.kind === "turn" ? "active" : before;
  for (const { op } of minted) {
    if (op.kind === "done") state = op.outcome;
    else if (op.kind === "model") state = "active";
  }
  return state;
}
