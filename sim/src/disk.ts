import type { Disk } from "@dev/cell/parts";
import { fail, fault, ok } from "@dev/protocol";
import type { Chance } from "./chance.ts";
import type { Party, Steps } from "./steps.ts";

/** A cell's disk: it survives its agents, but for what was not synced. */
export class Platter {
  #durable: Uint8Array = new Uint8Array(0);
  #unsynced: Uint8Array = new Uint8Array(0);
  #isFailing = false;
  #hasFailed = false;
  /** A disk that says that it has synced, and has not: a guard of the spool switched off. */
  readonly #lies: boolean;

  constructor(lies: boolean) {
    this.#lies = lies;
  }

  /** What a process that starts now would read. */
  get bytes(): Uint8Array {
    return this.#durable;
  }

  /** Whether anything was lost although its writer lived. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** The power goes: a part of what was not synced may have come as far as the disk, or zeros instead. */
  crash(chance: Chance): void {
    const torn = this.#unsynced.slice(0, chance.below(this.#unsynced.length + 1));
    if (chance.below(4) === 0) torn.fill(0, chance.below(torn.length + 1));
    this.#durable = this.#lies ? this.#durable : Buffer.concat([this.#durable, torn]);
    this.#unsynced = new Uint8Array(0);
  }

  lose(): void {
    this.#durable = new Uint8Array(0);
    this.#unsynced = new Uint8Array(0);
  }

  /** Makes the next write fail. */
  fail(): void {
    this.#isFailing = true;
  }

  /** The disk as one agent uses it. */
  open(steps: Steps, agent: Party): Disk {
    return {
      read: async () => {
        await steps.pass(agent, "spool reads");
        return ok(Buffer.concat([this.#durable, this.#unsynced]));
      },
      append: async (bytes) => {
        await steps.pass(agent, "spool appends");
        if (this.#fails()) {
          this.#unsynced = Buffer.concat([this.#unsynced, bytes.subarray(0, bytes.length / 2)]);
          return fail(IO);
        }
        this.#unsynced = Buffer.concat([this.#unsynced, bytes]);
        return ok(undefined);
      },
      sync: async () => {
        await steps.pass(agent, "spool syncs");
        if (this.#fails()) return fail(IO);
        if (!this.#lies) this.#sync(this.#unsynced);
        await steps.pass(agent, "spool has synced");
        return ok(undefined);
      },
      replace: async (bytes) => {
        await steps.pass(agent, "spool is rewritten");
        if (this.#fails()) return fail(IO);
        this.#durable = new Uint8Array(0);
        this.#sync(bytes);
        await steps.pass(agent, "spool has been rewritten");
        return ok(undefined);
      },
      close: async () => {
        // A process that ends leaves what it wrote to the system, which writes it out in time.
        this.#sync(this.#unsynced);
      },
    };
  }

  #fails(): boolean {
    const isFailing = this.#isFailing;
    this.#isFailing = false;
    this.#hasFailed ||= isFailing;
    return isFailing;
  }

  #sync(bytes: Uint8Array): void {
    this.#durable = Buffer.concat([this.#durable, bytes]);
    this.#unsynced = new Uint8Array(0);
  }
}

const IO = fault("io", "the disk failed");
