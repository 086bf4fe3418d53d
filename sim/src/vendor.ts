import type { Observation, Progress, Vendor } from "@dev/cell";
import type { CellId, Result } from "@dev/protocol";
import { ok } from "@dev/protocol";
import { Cell, type Ground } from "./cell.ts";
import { SimulatedLink } from "./link.ts";
import type { Party } from "./steps.ts";

/** Every cell there is, and its link. They outlive drivers, as a vendor's records do. */
export class Yard {
  readonly #ground: Ground;
  readonly #cells = new Map<CellId, Cell>();
  readonly #links = new Map<CellId, { readonly driver: Party; readonly link: SimulatedLink }>();

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  /** The newest cell: the one that things happen to. */
  get newest(): Cell | undefined {
    return [...this.#cells.values()].at(-1);
  }

  /** Breaks the newest cell's link. */
  cut(): void {
    if (this.newest !== undefined) this.#links.get(this.newest.id)?.link.cut();
  }

  /** A driver has died: its end of every link is closed. */
  orphan(driver: Party): void {
    for (const held of this.#links.values()) if (held.driver === driver) held.link.orphan();
  }

  /** The vendor as one driver's process has it. */
  vendor(driver: Party): Vendor {
    const { steps } = this.#ground;
    const call = async (
      what: string,
      id: CellId,
      progress: Progress,
      find: () => Cell | undefined,
    ): Promise<Result<Observation>> => {
      await steps.pass(driver, `vendor ${what} ${id.at(-1)}`);
      const cell = find();
      await steps.pass(driver, `vendor has done ${what} ${id.at(-1)}`);
      if (cell === undefined || cell.isGone) return ok({ kind: "gone" });
      void this.#bringUp(cell, driver, progress);
      return ok({ kind: "starting" });
    };
    return {
      name: "simulated",
      create: (id, _spec, progress) => call("create", id, progress, () => this.#create(id)),
      get: (id, _spec, progress) => call("get", id, progress, () => this.#cells.get(id)),
      hibernate: async () => ok({ kind: "ready" } as Observation),
      delete: async () => ok({ kind: "gone" }),
    };
  }

  #create(id: CellId): Cell {
    const cell = new Cell(id, this.#ground);
    this.#cells.set(id, cell);
    return cell;
  }

  /** Links a driver to a cell's agent, which is started when there is none to be had. */
  async #bringUp(cell: Cell, driver: Party, progress: Progress): Promise<void> {
    const here = await cell.agent();
    const { steps, schedule } = this.#ground;
    if (!here.ok) {
      schedule.after(() => {
        if (driver.alive) progress({ kind: "failed", fault: here.fault });
      });
      return;
    }
    const { agent } = here.value;
    if (agent === null) throw new Error("an agent that has started is none");
    // One agent has one link: whoever is linked anew takes it from whoever was before.
    const before = this.#links.get(cell.id);
    if (before?.link.isOpen) before.link.cut();
    const link = new SimulatedLink(this.#ground, cell.id, driver, here.value, agent);
    this.#links.set(cell.id, { driver, link });
    // The driver may have died, or its agent, while they waited for each other.
    if (!driver.alive) return link.orphan();
    await steps.pass(driver, "the cell is ready");
    progress({ kind: "ready", link });
  }
}
