/** Time, as an argument: the agent never asks the machine for it. */
export interface Clock {
  /** Unix milliseconds. */
  wallMs(): number;
  /** Milliseconds that never go back, from no fixed start. */
  monotonicMs(): number;
  /** Resolves after `ms`, or as soon as the signal aborts; it never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
