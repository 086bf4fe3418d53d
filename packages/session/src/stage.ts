import type { CellSpec } from "@dev/cell";
import type { Session as CoreSession } from "@dev/host";
import type { Action, DoneOp, Event, Result } from "@dev/protocol";
import { ok } from "@dev/protocol";
import type { CheckpointCause, Claim, Session as SessionRow, Settled } from "@dev/store";
import type { OpenAction } from "./recovery.ts";
import type { Services } from "./services.ts";

export type StageTerms = {
  readonly services: Services;
  readonly claim: Claim;
  readonly row: SessionRow;
  readonly core: CoreSession;
  /** Brings what changed in the cell back to this machine. */
  readonly collect: () => Promise<Result<undefined>>;
  /** The journal's sequence that the core has seen. */
  readonly sequence: () => number;
  readonly onDone: (op: DoneOp) => void;
};

/**
 * Performs the actions that need no one else: what is said, saved and ended. It also has snapshots taken of
 * the workspace: before the first effect, after each batch of effects, and with each save.
 */
export class Stage {
  readonly #terms: StageTerms;
  #isBegun = false;
  /** An effect has ended that may have changed the workspace, and no snapshot was taken since. */
  #isTouched = false;

  constructor(terms: StageTerms) {
    this.#terms = terms;
  }

  /** Prepares the workspace; what it is before the first effect can be gone back to. */
  async spec(): Promise<Result<CellSpec>> {
    const { services, row } = this.#terms;
    const spec = await services.spec(row);
    if (!spec.ok || this.#isBegun) return spec;
    const begun = await this.#begin();
    this.#isBegun = begun.ok;
    return begun.ok ? spec : begun;
  }

  /** Hears of each event; once no effect is under way, what they left of the workspace is kept. */
  async keep(event: Event, hasEffects: boolean): Promise<Result<void>> {
    if (mayChange(event)) this.#isTouched = true;
    if (!this.#isTouched || hasEffects) return ok(undefined);
    const workspace = await this.#workspace();
    if (!workspace.ok) return workspace;
    return this.#name(workspace.value, "effects");
  }

  /** Performs a batch, in order. Faults: the store's and the core's. */
  async perform(batch: readonly OpenAction[]): Promise<Result<void>> {
    const { claim, services } = this.#terms;
    const { store, now } = services;
    const minted = batch.filter(({ standing }) => standing.kind === "minted");
    const dispatches = minted.map(({ action }) => {
      return { id: action.id, attempt: 1, spool: "", atMs: now() };
    });
    if (dispatches.length > 0) {
      const written = await store.dispatch(claim, dispatches);
      if (!written.ok) return written;
    }
    const settled: Settled[] = [];
    for (const { action } of batch) {
      const shown = await this.#show(action);
      if (!shown.ok) return shown;
      settled.push({ id: action.id, state: "completed", detail: "", atMs: now() });
    }
    return store.settle(claim, settled);
  }

  async #show(action: Action): Promise<Result<void>> {
    const { services, claim, core, sequence, onDone } = this.#terms;
    const { op } = action;
    switch (op.kind) {
      case "emit":
        services.onProgress({ kind: "said", action, text: op.text });
        return ok(undefined);
      case "save": {
        const snapshot = core.snapshot();
        if (!snapshot.ok) return snapshot;
        const workspace = await this.#workspace();
        if (!workspace.ok) return workspace;
        const of = { workspace: workspace.value, sequence: sequence(), atMs: services.now() };
        return services.store.save(claim, { snapshot: snapshot.value, ...of });
      }
      case "done":
        onDone(op);
        return ok(undefined);
      default:
        throw new Error(`action ${action.id} is not performed here`);
    }
  }

  async #begin(): Promise<Result<void>> {
    const { services, row } = this.#terms;
    const workspace = await services.checkpoint(row);
    if (!workspace.ok || workspace.value === "") return workspace.ok ? ok(undefined) : workspace;
    const named = await services.store.checkpoints(row.id);
    if (!named.ok) return named;
    return named.value.length > 0 ? ok(undefined) : this.#name(workspace.value, "begin");
  }

  async #workspace(): Promise<Result<string>> {
    const { services, row, collect } = this.#terms;
    const collected = await collect();
    if (!collected.ok) return collected;
    const workspace = await services.checkpoint(row);
    if (workspace.ok) this.#isTouched = false;
    return workspace;
  }

  async #name(workspace: string, cause: CheckpointCause): Promise<Result<void>> {
    const { services, claim, sequence } = this.#terms;
    if (workspace === "") return ok(undefined);
    const of = { sequence: sequence(), atMs: services.now(), cause };
    return services.store.checkpoint(claim, { workspace, ...of });
  }
}

/** Whether an event ends an effect that may have changed the workspace. */
function mayChange(event: Event): boolean {
  if (!("outcome" in event) || event.outcome.kind === "refused") return false;
  if (event.outcome.kind !== "ok") return true;
  const { kind } = event.outcome.result;
  return kind !== "read" && kind !== "search";
}
