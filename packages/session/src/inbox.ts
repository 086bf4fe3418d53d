import type { Event, Fault, Result, SteerEvent } from "@dev/protocol";
import { fail, fault } from "@dev/protocol";
import { sound } from "./sound.ts";

/** The events that a driver is to take, in order; who put one in may wait until it is durable. */
export class Inbox {
  readonly #events: Event[] = [];
  readonly #waiting = new Map<Event, (result: Result<void>) => void>();

  get isEmpty(): boolean {
    return this.#events.length === 0;
  }

  put(event: Event): void {
    this.#events.push(sound(event));
  }

  /** Puts a person's message in; resolves when that is `settle`d. Fault: `too_large`. */
  async steer(text: string): Promise<Result<void>> {
    const bytes = Buffer.byteLength(text);
    if (bytes > STEER_LIMIT_BYTES) {
      const message = `the message has ${bytes} bytes, of ${STEER_LIMIT_BYTES}`;
      return fail(fault("too_large", message, "", "put it into a file, and name that"));
    }
    const event: SteerEvent = { kind: "steer", text };
    const taken = sound(event);
    this.#events.push(taken);
    return new Promise((resolve) => this.#waiting.set(taken, resolve));
  }

  take(): Event | undefined {
    return this.#events.shift();
  }

  /** Tells whoever waits for an event what became of it. */
  settle(event: Event, result: Result<void>): void {
    this.#waiting.get(event)?.(result);
    this.#waiting.delete(event);
  }

  /** Tells all who wait that their events will not be taken. */
  close(why: Fault): void {
    for (const tell of this.#waiting.values()) tell(fail(why));
    this.#waiting.clear();
  }
}

/** A message to a session at work, in bytes. */
const STEER_LIMIT_BYTES = 1024 * 1024;
