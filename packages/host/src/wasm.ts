import { type Action, type Fault, fail, fault } from "@dev/protocol";
import type { Ran } from "./deadline.ts";
import type { Host, Instance } from "./instance.ts";
import { PIECE_UNITS } from "./piece.ts";
import { seal, unseal } from "./seal.ts";
import { full, type Guest, openSealed } from "./sealed.ts";

/**
 * What the engine does in a millisecond at the least, in rounds of its loops. A call's time is counted
 * in these and not by a clock: nothing in the module goes on for long without taking from them, the
 * engine's own C code no more than the core, so they stop whatever a clock would, at the same
 * place on every machine, and without a watchdog, whose thread costs more than a step.
 */
export const FUEL_PER_MS = 100_000;
const FUEL_LIMIT = 0x7fff_ffff;

/**
 * What a step takes of the heap while it runs and for good, in copies of its event's text: the event
 * and its parts, the message, and the action that tells of it, each as text that grows as it is written.
 */
const EVENT_COPIES = 6;
const KEPT_COPIES = 2;
/** What stays free behind any event, for the next snapshot. */
const RESERVE_BYTES = 2 * 1024 * 1024;
/** What stays free behind a large event, for small ones such as one that compacts. */
const LARGE_RESERVE_BYTES = 8 * 1024 * 1024;
const SMALL_EVENT_UNITS = 64 * 1024;

/** How many sessions have an instance at a time; the others are kept as their snapshots. */
export const LIVE_LIMIT = 256;

/**
 * Each session in an instance of the sealed core, with a memory of its own. `module` is the core as it
 * was sealed when this package was built, where it is not another.
 */
export function openWasm(
  deadlineMs: number,
  liveLimit: number,
  module: URL = new URL("../dist/core.wasm", import.meta.url),
): Host {
  const makeGuest = openSealed(module, Math.min(FUEL_LIMIT, deadlineMs * FUEL_PER_MS));
  const seats = openSeats(liveLimit);
  const restored = (text: Uint8Array): Awake => {
    const guest = makeGuest();
    const read = guest.call("restore", lighter(text), (answer) => answer.toString("utf8"));
    if (read.kind !== "done") return { kind: "lost", ran: orFull(read) };
    if (read.value === "") return { kind: "live", guest };
    return { kind: "lost", ran: { kind: "refused", fault: JSON.parse(read.value) as Fault } };
  };
  return {
    create: (config) => {
      const guest = makeGuest();
      const opened = guest.call("open", JSON.stringify(config), () => null);
      const first: Awake =
        opened.kind === "done" ? { kind: "live", guest } : { kind: "lost", ran: opened };
      return resident(first, restored, seats);
    },
    restore: (bytes) => {
      const text = unseal(bytes);
      if (!text.ok) return text;
      const life = restored(text.value);
      if (life.kind === "lost") return fail(unrestored(life.ran));
      return { ok: true, value: resident(life, restored, seats) };
    },
  };
}

/** A session's core: in an instance, or lost, as its next call says. */
type Awake =
  | { readonly kind: "live"; readonly guest: Guest }
  | { readonly kind: "lost"; readonly ran: Lost };

type Life = Awake | { readonly kind: "idle"; readonly text: Uint8Array };

type Lost = Exclude<Ran<unknown>, { readonly kind: "done" }>;

/** A session that leaves its instance when others need room, and gets another at its next event. */
function resident(first: Awake, restored: (text: Uint8Array) => Awake, seats: Seats): Instance {
  let life: Life = first;
  const seat: Seat = {
    leave: () => {
      if (life.kind !== "live") return;
      const ran = snapshotText(life.guest);
      // One that cannot be written down yet stays where it is.
      if (ran.kind === "refused") return;
      life = ran.kind === "done" ? { kind: "idle", text: ran.value } : { kind: "lost", ran };
    },
  };
  const awake = (): Awake => {
    const now = life.kind === "idle" ? restored(life.text) : life;
    // What was refused can still be saved, and restored where there is more room.
    if (now.kind === "live" || now.ran.kind !== "refused") life = now;
    if (now.kind === "live") seats.take(seat);
    return now;
  };
  awake();
  return {
    step: (event) => {
      const now = awake();
      if (now.kind === "lost") return now.ran;
      const text = JSON.stringify(event);
      if (lacksRoom(now.guest, text)) return { kind: "refused", fault: full() };
      return now.guest.call("step", text, actionsFrom);
    },
    snapshot: () => {
      if (life.kind === "idle") return { kind: "done", value: seal(life.text) };
      const now = awake();
      if (now.kind === "lost") return now.ran;
      const text = snapshotText(now.guest);
      return text.kind === "done" ? { kind: "done", value: seal(text.value) } : text;
    },
    close: () => {
      seats.give(seat);
      life = { kind: "lost", ran: { kind: "late" } };
    },
  };
}

/** Whether a step might be refused memory half way, which would end the session. */
function lacksRoom(guest: Guest, text: string): boolean {
  const isSmall = text.length <= SMALL_EVENT_UNITS;
  // The engine takes two bytes a unit for a text that has any beyond Latin-1; it goes in and
  // out as UTF-8, for which of such a text half as much again is taken at first.
  const isWide = isSmall || WIDE.test(text);
  const utf8Bytes = (isWide ? 1.5 : 1) * Buffer.byteLength(text);
  const copyBytes = Math.max((isWide ? 2 : 1) * text.length, utf8Bytes);
  const neededBytes = Math.max(
    EVENT_COPIES * copyBytes + RESERVE_BYTES,
    KEPT_COPIES * copyBytes + (isSmall ? RESERVE_BYTES : LARGE_RESERVE_BYTES),
  );
  return neededBytes > guest.freeBytes();
}

const WIDE = /[^\0-\xff]/;

/** What an engine's memory could not hold, which changed nothing. */
function orFull(ran: Lost): Lost {
  const isMemory = ran.kind === "threw" && String(ran.error).includes("out of memory");
  return isMemory ? { kind: "refused", fault: full() } : ran;
}

/**
 * A snapshot's text as the engine takes least memory to read it: one that is ASCII but for a few letters
 * has them escaped, as they would make the engine take two bytes, and three more, for all the others.
 */
function lighter(text: Uint8Array): Uint8Array {
  if (text.length < LIGHTENED_BYTES) return text;
  const wide = Buffer.from(text.buffer, text.byteOffset, text.byteLength).toString("utf8");
  if (!WIDE.test(wide)) return text;
  const escaped = wide.replace(/[^\0-\x7f]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
  return escaped.length * 2 < wide.length * 5 ? Buffer.from(escaped, "latin1") : text;
}

const LIGHTENED_BYTES = 1024 * 1024;

/** A snapshot's text, put together from its pieces outside of the guest's memory. */
function snapshotText(guest: Guest): Ran<Uint8Array> {
  let piece = guest.call("snapshot", null, copied);
  const pieces: Uint8Array[] = [];
  while (piece.kind === "done" && piece.value.length >= PIECE_UNITS) {
    pieces.push(piece.value);
    piece = guest.call("more", null, copied);
  }
  if (piece.kind !== "done") return orFull(piece);
  if (pieces.length === 0) return piece;
  return { kind: "done", value: Buffer.concat([...pieces, piece.value]) };
}

function copied(answer: Buffer): Uint8Array {
  return new Uint8Array(answer);
}

// What the core wrote is what its types say: it is the same source on both sides.
function actionsFrom(answer: Buffer): readonly Action[] {
  return JSON.parse(answer.toString("utf8"));
}

/** Why a snapshot whose bytes are whole is not restored. */
function unrestored(ran: Lost): Fault {
  if (ran.kind === "refused") return ran.fault;
  const why = ran.kind === "late" ? "its deadline" : String(ran.error);
  return fault("panic", `the core was stopped as it read a snapshot: ${why}`);
}

/** One of the sessions that have an instance; `leave` ends that. */
type Seat = { leave(): void };
type Seats = {
  /** Takes a place, or keeps it; who has not been called for the longest leaves where there is none. */
  take(seat: Seat): void;
  give(seat: Seat): void;
};

function openSeats(limit: number): Seats {
  // In the order in which they were last called.
  const taken = new Set<Seat>();
  return {
    take: (seat) => {
      taken.delete(seat);
      taken.add(seat);
      const [oldest] = taken;
      if (taken.size <= limit || oldest === undefined) return;
      taken.delete(oldest);
      oldest.leave();
    },
    give: (seat) => {
      taken.delete(seat);
    },
  };
}
