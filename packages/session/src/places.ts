/** So many places: who finds none free waits, and gets one in the order of coming. */
export class Places {
  #freeCount: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#freeCount = count;
  }

  /** Takes a place; what it answers with gives the place back, and is called once. */
  async take(): Promise<() => void> {
    if (this.#freeCount > 0) this.#freeCount -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return () => this.#leave();
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#freeCount += 1;
    else next();
  }
}
