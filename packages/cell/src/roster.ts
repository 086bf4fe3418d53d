import type { Duplex } from "node:stream";
import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import type { Socketed } from "./websocket.ts";

/** Who has dialled in. */
export type Caller = {
  /** `cell ACCOUNT ID` or `vendor ACCOUNT NAME`: one of each may be linked. */
  readonly seat: string;
  /** Made when the process started: a redial has the same, another process never. */
  readonly instance: string;
  /** Of a cell; a vendor's is 0. */
  readonly generation: number;
  /** What a person is told of the holder. */
  readonly label: string;
};

/** Seats that are remembered; of those that nobody holds, the oldest is forgotten first. */
export const SEAT_LIMIT: number = 65_536;
/** A holder that has not answered by then is taken for lost, when another asks for its seat. */
export const HOLDER_LIMIT_MS: number = 5_000;

/** A seat that a caller may have, and the holder that did not answer when it was asked. */
export type Admission = { readonly caller: Caller; readonly silent: Holder | undefined };

type Holder = { readonly caller: Caller; readonly link: Socketed; readonly sinceMs: number };

type Seat = {
  readonly seat: string;
  /** The highest that was ever linked. */
  generation: number;
  holder:
    | { readonly caller: Caller; readonly link: Socketed; readonly sinceMs: number }
    | undefined;
  /** A link that nobody has taken yet. */
  untaken: Duplex | undefined;
  readonly waiting: ((stream: Duplex) => void)[];
};

/**
 * Who holds which seat. A redial of the same process takes over from its own earlier link, and a higher
 * generation from a lower one. Another process of the same generation is refused for as long as the holder
 * answers, and a lower generation is refused for ever.
 */
export class Roster {
  readonly #seats = new Map<string, Seat>();

  /**
   * Whether a caller may have its seat; asked before a WebSocket is opened, and before `seat`, which is given
   * the answer. Fault `superseded`: the seat is another's.
   */
  async admit(caller: Caller): Promise<Result<Admission>> {
    const holder = this.#rival(caller);
    if (!holder.ok) return holder;
    // A machine that was switched off has closed nothing: its seat is free when it does not answer.
    const isHeld = (await holder.value?.link.isAlive(HOLDER_LIMIT_MS)) ?? false;
    if (holder.value !== undefined && isHeld) return fail(heldFault(holder.value));
    return ok({ caller, silent: holder.value });
  }

  /** Why an admission is not good any more: another was seated meanwhile. */
  conflict({ caller, silent }: Admission): Fault | undefined {
    const holder = this.#rival(caller);
    if (!holder.ok) return holder.fault;
    if (holder.value === undefined || holder.value === silent) return undefined;
    return heldFault(holder.value);
  }

  /** Seats a caller without a conflict. What was held by the one it takes over from is cut. */
  seat({ caller }: Admission, link: Socketed, nowMs: number): void {
    const seat = this.#seatOf(caller.seat);
    const before = seat.holder;
    seat.generation = caller.generation;
    seat.holder = { caller, link, sinceMs: nowMs };
    seat.untaken = undefined;
    before?.link.stream.destroy(new Error("another link has taken over"));
    link.stream.once("close", () => {
      if (seat.holder?.link !== link) return;
      seat.holder = undefined;
      seat.untaken = undefined;
    });
    const next = seat.waiting.shift();
    if (next === undefined) seat.untaken = link.stream;
    else next(link.stream);
  }

  /** Who holds a caller's seat and does not make way for it by what it is. Fault: `superseded`. */
  #rival(caller: Caller): Result<Holder | undefined> {
    const seat = this.#seats.get(caller.seat);
    if (seat === undefined) return ok(undefined);
    if (caller.generation < seat.generation) return fail(olderFault(caller, seat.generation));
    const { holder } = seat;
    if (holder === undefined || caller.generation > holder.caller.generation) return ok(undefined);
    return ok(holder.caller.instance === caller.instance ? undefined : holder);
  }

  /** The link of a seat that nobody has taken yet; each is given once. */
  take(name: string): Duplex | undefined {
    const seat = this.#seats.get(name);
    const stream = seat?.untaken;
    if (seat !== undefined) seat.untaken = undefined;
    return stream;
  }

  /** The next link of a seat, now or when there is one. Fault: `unavailable`, when it was given up. */
  next(name: string, signal: AbortSignal): Promise<Result<Duplex>> {
    const untaken = this.take(name);
    if (untaken !== undefined) return Promise.resolve(ok(untaken));
    if (signal.aborted) return Promise.resolve(fail(nobodyFault(name)));
    const { waiting } = this.#seatOf(name);
    return new Promise((resolve) => {
      const take = (stream: Duplex): void => {
        signal.removeEventListener("abort", giveUp);
        resolve(ok(stream));
      };
      const giveUp = (): void => {
        waiting.splice(waiting.indexOf(take), 1);
        resolve(fail(nobodyFault(name)));
      };
      waiting.push(take);
      signal.addEventListener("abort", giveUp, { once: true });
    });
  }

  /** Whoever holds a seat, as a person is told. */
  holder(name: string): { readonly label: string; readonly sinceMs: number } | undefined {
    const holder = this.#seats.get(name)?.holder;
    return holder && { label: holder.caller.label, sinceMs: holder.sinceMs };
  }

  close(): void {
    for (const { holder } of this.#seats.values()) holder?.link.stream.destroy();
    this.#seats.clear();
  }

  #seatOf(name: string): Seat {
    const known = this.#seats.get(name);
    if (known !== undefined) return known;
    if (this.#seats.size >= SEAT_LIMIT) {
      const idle = [...this.#seats.values()].find((s) => !s.holder && s.waiting.length === 0);
      if (idle !== undefined) this.#seats.delete(idle.seat);
    }
    const seat: Seat = {
      seat: name,
      generation: 0,
      holder: undefined,
      untaken: undefined,
      waiting: [],
    };
    this.#seats.set(name, seat);
    return seat;
  }
}

function heldFault({ caller, sinceMs }: Holder): Fault {
  const [, , name = caller.seat] = caller.seat.split(" ");
  const since = new Date(sinceMs).toISOString();
  return fault("superseded", `${name} is held by ${caller.label} since ${since}`, name);
}

function olderFault(caller: Caller, generation: number): Fault {
  const message = `generation ${caller.generation} is over: generation ${generation} has been linked`;
  return fault("superseded", message, caller.seat);
}

function nobodyFault(name: string): Fault {
  return fault("unavailable", "nobody has dialled in", name, "try again when it is connected");
}
