/** Things that are made when they are first needed, at most so many, and lent to one user at a time. */
export class Pool<T> {
  readonly #make: (index: number) => Promise<T>;
  readonly #limit: number;
  readonly #free: T[] = [];
  /** Each is given an item, or null where it is to make one itself. */
  readonly #waiting: ((item: T | null) => void)[] = [];
  readonly #uses = new Set<Promise<unknown>>();
  #madeCount = 0;

  constructor(limit: number, make: (index: number) => Promise<T>) {
    this.#limit = limit;
    this.#make = make;
  }

  /**
   * Lends one to `act`, in the order of asking. Rejects as soon as the signal aborts; `act` has the
   * signal too, and whatever it lent is lent again only when it is done.
   */
  async use<R>(act: (item: T) => Promise<R>, signal: AbortSignal): Promise<R> {
    signal.throwIfAborted();
    const use = this.#use(act, signal);
    this.#uses.add(use);
    const forget = () => this.#uses.delete(use);
    use.then(forget, forget);
    return Promise.race([use, aborted(signal, use)]);
  }

  /** Resolves when nothing is lent any more. */
  async idle(): Promise<void> {
    while (this.#uses.size > 0) await Promise.allSettled(this.#uses);
  }

  async #use<R>(act: (item: T) => Promise<R>, signal: AbortSignal): Promise<R> {
    const item = await this.#take(signal);
    try {
      signal.throwIfAborted();
      return await act(item);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free.push(item);
      else next(item);
    }
  }

  async #take(signal: AbortSignal): Promise<T> {
    const free = this.#free.pop();
    if (free !== undefined) return free;
    if (this.#madeCount >= this.#limit) {
      if (this.#waiting.length >= WAITING_LIMIT) throw new Error("too many wait for a slot");
      const given = await new Promise<T | null>((resolve) => this.#waiting.push(resolve));
      return given ?? this.#take(signal);
    }
    this.#madeCount += 1;
    try {
      signal.throwIfAborted();
      return await this.#make(this.#madeCount - 1);
    } catch (error) {
      this.#madeCount -= 1;
      // Nobody will hand anything on to whoever waited for this one.
      this.#waiting.shift()?.(null);
      throw error;
    }
  }
}

/** More than this many asking at once is a fault of the one that asks. */
const WAITING_LIMIT = 10_000;

/** Rejects when the signal aborts, and listens no longer than until the other has settled. */
function aborted(signal: AbortSignal, other: Promise<unknown>): Promise<never> {
  return new Promise((_, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    const forget = () => signal.removeEventListener("abort", abort);
    other.then(forget, forget);
  });
}
