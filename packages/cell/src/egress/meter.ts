import type { EgressLimits } from "./limits.ts";

/** Counts what passes, and ends what says nothing for too long, lasts too long, or is too much. */
export class Meter {
  up = 0;
  down = 0;
  readonly #limits: EgressLimits;
  readonly #stop: (why: string) => void;
  readonly #idle: NodeJS.Timeout;
  readonly #total: NodeJS.Timeout;

  constructor(limits: EgressLimits, stop: (why: string) => void) {
    this.#limits = limits;
    this.#stop = stop;
    const { idleMs, totalMs } = limits;
    this.#idle = setTimeout(() => stop(`nothing came for ${idleMs} ms (idleMs)`), idleMs);
    this.#total = setTimeout(() => stop(`it took longer than ${totalMs} ms (totalMs)`), totalMs);
  }

  sent(bytes: number): void {
    this.up += bytes;
    this.#passed();
  }

  received(bytes: number): void {
    this.down += bytes;
    this.#passed();
  }

  close(): void {
    clearTimeout(this.#idle);
    clearTimeout(this.#total);
  }

  #passed(): void {
    this.#idle.refresh();
    if (this.up + this.down <= this.#limits.bytes) return;
    this.#stop(`it is more than ${this.#limits.bytes} bytes (bytes)`);
  }
}
