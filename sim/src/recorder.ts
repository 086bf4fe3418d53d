import type { Event, Result } from "@dev/protocol";
import type { Dispatch, Store } from "@dev/store";
import { openSqlite } from "@dev/store";
import type { Party, Steps } from "./steps.ts";
import type { World } from "./world.ts";

type Write = { readonly what: string; readonly again: (store: Store) => Promise<unknown> };

/**
 * The real store with a point before each call and one after it: a driver may die with a write done
 * that it never hears of. What becomes durable is told to the world in that moment.
 */
export class Recorder {
  readonly #world: World;
  readonly #steps: Steps;
  #store: Store;
  readonly #writes: Write[] = [];

  constructor(store: Store, world: World, steps: Steps) {
    this.#store = store;
    this.#world = world;
    this.#steps = steps;
  }

  /** The store itself, for those who see everything. */
  get store(): Store {
    return this.#store;
  }

  /** The store as one driver has it. */
  for(driver: Party): Store {
    const read = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
      await this.#steps.pass(driver, `store reads ${what}`);
      return work();
    };
    const write = async <T>(
      what: string,
      work: (store: Store) => Promise<T>,
      durable: () => void = () => undefined,
    ): Promise<T> => {
      await this.#steps.pass(driver, `store ${what}`);
      const done = await work(this.#store);
      if (isDone(done)) {
        this.#writes.push({ what, again: work });
        durable();
      }
      await this.#steps.pass(driver, `store has done ${what}`);
      return done;
    };
    const world = this.#world;
    const dispatched = (dispatches: readonly Dispatch[]): void => {
      for (const { id, spool } of dispatches) world.dispatched.set(id, spool);
    };
    return {
      create: (session, holder) => write("create", (store) => store.create(session, holder)),
      session: (id) => read("session", () => this.#store.session(id)),
      sessions: (limit, before) => read("sessions", () => this.#store.sessions(limit, before)),
      lastSave: (id) => read("save", () => this.#store.lastSave(id)),
      journal: (id, after) => read("journal", () => this.#store.journal(id, after)),
      ledger: (id, from) => read("ledger", () => this.#store.ledger(id, from)),
      claim: (id, holder, isAlive, nowMs) =>
        write("claim", (store) => store.claim(id, holder, isAlive, nowMs)),
      release: (claim) => write("release", (store) => store.release(claim)),
      append: (claim, entry) =>
        write(
          `append ${eventText(entry.event)}`,
          (store) => store.append(claim, entry),
          () => {
            world.append(entry.event, entry.minted);
            for (const { op } of entry.minted) {
              if (op.kind !== "done") continue;
              this.#steps.note("", `turn ${op.turn} ends as ${op.outcome} ${op.reason}`);
            }
            dispatched(entry.dispatches ?? []);
          },
        ),
      dispatch: (claim, dispatches) =>
        write(
          `${dispatches.some(({ spool }) => spool !== "") ? EFFECTS : "dispatch"} ${dispatches.map(({ id }) => id)}`,
          (store) => store.dispatch(claim, dispatches),
          () => dispatched(dispatches),
        ),
      settle: (claim, settled) =>
        write(`settle ${settled.map(({ id, state }) => `${id} ${state}`)}`, (store) =>
          store.settle(claim, settled),
        ),
      save: (claim, save) =>
        write(
          "save",
          (store) => store.save(claim, save),
          () => world.saves.push(save),
        ),
      requests: (id) => read("requests", () => this.#store.requests(id)),
      note: (id, requests) => write("note requests", (store) => store.note(id, requests)),
      checkpoint: (claim, checkpoint) =>
        write("checkpoint", (store) => store.checkpoint(claim, checkpoint)),
      checkpoints: (id) => read("checkpoints", () => this.#store.checkpoints(id)),
      fork: (from, checkpoint, made) =>
        write("fork", (store) => store.fork(from, checkpoint, made)),
      workspaces: () => read("workspaces", () => this.#store.workspaces()),
      attach: (claim, cell) => write("attach", (store) => store.attach(claim, cell)),
      close: () => undefined,
    };
  }

  /** A guard switched off: the store forgets the first effect that was dispatched, and all that came after. */
  async forget(): Promise<void> {
    const first = this.#writes.findIndex(({ what }) => what.startsWith(EFFECTS));
    if (first < 0) return;
    const kept = this.#writes.splice(0).slice(0, first);
    const fresh = await freshStore();
    for (const { again } of kept) await again(fresh);
    this.#writes.push(...kept);
    this.#store = fresh;
  }
}

/** How a dispatch to a cell begins in the trace. */
const EFFECTS = "dispatch effects";

export function eventText(event: Event): string {
  if (event.kind === "model") return `model ${event.id} ${event.answer.kind}`;
  if ("outcome" in event) return `${event.kind} ${event.id} ${event.outcome.kind}`;
  return "id" in event ? `${event.kind} ${event.id}` : event.kind;
}

function isDone(done: unknown): boolean {
  return done === undefined || (done as Result<unknown>).ok;
}

/** A real store that lives as long as this process. */
export async function freshStore(): Promise<Store> {
  const opened = await openSqlite(":memory:");
  if (!opened.ok) throw new Error(opened.fault.message);
  return opened.value;
}
