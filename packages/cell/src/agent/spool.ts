import { type ActionId, type CellId, fail, fault, never, ok, type Result } from "@dev/protocol";
import type { Disk } from "./disk.ts";
import {
  type Entry,
  type Evidence,
  encodeEntries,
  encodeHeader,
  type LogHeader,
  type ReadLog,
  readLog,
} from "./log.ts";
import { addSpan, hasId, type Span } from "./span.ts";

/** What a spool knows of an action's id. */
export type Known =
  | { readonly kind: "never" }
  /** It may have begun, and no outcome was written down. */
  | { readonly kind: "started"; readonly evidence: Evidence }
  /** `event` is the answer, as it was or will be sent. */
  | { readonly kind: "finished"; readonly event: Uint8Array }
  /** The answer is safe elsewhere and was dropped here; the id is known for ever. */
  | { readonly kind: "acknowledged" };

/** The log is rewritten when it is larger than this, and more than half of it is of no use any more. */
export const SPOOL_COMPACT_BYTES: number = 4 * 1024 * 1024;
/** Outcomes that wait to be acknowledged: past this no new effect begins. */
export const SPOOL_WAITING_LIMIT_BYTES: number = 256 * 1024 * 1024;
/** What is made durable by one append. */
const BATCH_LIMIT_BYTES = 8 * 1024 * 1024;

/** Who opens a spool, and the identity it gets when there is none yet. */
export type SpoolOwner = {
  readonly cell: CellId;
  readonly generation: number;
  readonly identity: string;
};

/**
 * The record of every action id that a cell was asked to perform. Each promise resolves when what it
 * says is durable; writes that come together share one sync.
 */
export class Spool {
  readonly #disk: Disk;
  readonly #header: LogHeader;
  readonly #started = new Map<number, Evidence>();
  readonly #finished = new Map<number, Uint8Array>();
  #acknowledged: readonly Span[] = [];
  readonly #queue: Waiting[] = [];
  #draining: Promise<void> | null = null;
  #logBytes = 0;
  #waitingBytes = 0;
  /** A failed append may have left anything behind: the log is rewritten before the next one. */
  #broken = false;

  private constructor(disk: Disk, header: LogHeader) {
    this.#disk = disk;
    this.#header = header;
  }

  /**
   * Opens the spool on a disk, or makes one. A log that is damaged, or another cell's, is one that
   * cannot be asked any more: a new one with a new identity takes its place. Faults: `newer_version`,
   * `superseded` (a later generation has opened it), `io`.
   */
  static async open(disk: Disk, owner: SpoolOwner): Promise<Result<Spool>> {
    const bytes = await disk.read();
    if (!bytes.ok) return bytes;
    const log = readLog(bytes.value);
    const header = headerFor(log, owner);
    if (!header.ok) return header;
    const spool = new Spool(disk, header.value);
    if (log.kind === "log" && header.value.identity === log.header.identity) {
      for (const entry of log.entries) spool.#apply(entry);
    }
    // Rewriting takes a torn tail away, and makes the generation durable, before anything is promised.
    const rewritten = await spool.#rewrite([]);
    return rewritten.ok ? ok(spool) : rewritten;
  }

  /** Made when the spool was, and never changed: another identity is another spool. */
  get identity(): string {
    return this.#header.identity;
  }

  find(id: ActionId): Known {
    const event = this.#finished.get(id);
    if (event !== undefined) return { kind: "finished", event };
    const evidence = this.#started.get(id);
    if (evidence !== undefined) return { kind: "started", evidence };
    return { kind: hasId(this.#acknowledged, id) ? "acknowledged" : "never" };
  }

  /** What may have begun and has no outcome, in id order. */
  unfinished(): readonly { readonly id: ActionId; readonly evidence: Evidence }[] {
    return [...this.#started]
      .map(([id, evidence]) => ({ id: id as ActionId, evidence }))
      .sort((a, b) => a.id - b.id);
  }

  /** Before its effect begins. Fault: `full`, `io`; then nothing may begin. */
  async start(id: ActionId, evidence: Evidence): Promise<Result<void>> {
    if (this.#waitingBytes > SPOOL_WAITING_LIMIT_BYTES) {
      const message = `${this.#finished.size} outcomes wait to be acknowledged`;
      return fail(fault("full", message, "the cell's spool", "acknowledge what was received"));
    }
    return this.#write({ kind: "started", id, evidence });
  }

  /** After its effect, and before its outcome is sent. */
  finish(id: ActionId, event: Uint8Array): Promise<Result<void>> {
    return this.#write({ kind: "finished", id, event });
  }

  /** Evidence says that what was `started` never happened: it may be performed. */
  forget(id: ActionId): Promise<Result<void>> {
    return this.#write({ kind: "forgotten", id });
  }

  /** Drops the outcomes of these; an id that runs now is let be. */
  async acknowledge(ids: readonly ActionId[]): Promise<Result<void>> {
    const ended = ids.filter((id) => !this.#started.has(id));
    const written = ended.map((id) => this.#write({ kind: "acknowledged", from: id, to: id }));
    for (const result of await Promise.all(written)) if (!result.ok) return result;
    return ok(undefined);
  }

  /** Waits for what is being written; what could not be is tried once more. */
  async close(): Promise<void> {
    await this.#draining;
    if (this.#broken) await this.#rewrite([]);
    await this.#disk.close();
  }

  #write(entry: Entry): Promise<Result<void>> {
    return new Promise((resolve) => {
      this.#queue.push({ entry, resolve });
      this.#draining ??= this.#drain();
    });
  }

  async #drain(): Promise<void> {
    // Those that come in this very turn share the first sync too.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const batch = takeBatch(this.#queue);
      const entries = batch.map((waiting) => waiting.entry);
      const result = await this.#commit(entries);
      // An outcome is the truth whether or not it could be written: the next rewrite tries again.
      for (const entry of entries) if (result.ok || entry.kind === "finished") this.#apply(entry);
      for (const waiting of batch) waiting.resolve(result);
      if (this.#isWasteful()) await this.#rewrite([]);
    }
    this.#draining = null;
  }

  async #commit(entries: readonly Entry[]): Promise<Result<void>> {
    if (this.#broken) return this.#rewrite(entries);
    const bytes = encodeEntries(entries);
    const appended = await this.#disk.append(bytes);
    const result = appended.ok ? await this.#disk.sync() : appended;
    // After a sync that failed nobody knows what is on the disk, whatever a second sync says.
    if (!result.ok) this.#broken = true;
    this.#logBytes += bytes.length;
    return result;
  }

  /** Puts a log of what is known, and of `more`, in the log's place. */
  async #rewrite(more: readonly Entry[]): Promise<Result<void>> {
    const kept: Entry[] = [
      ...this.#acknowledged.map((span) => ({ kind: "acknowledged" as const, ...span })),
      ...this.unfinished().map((started) => ({ kind: "started" as const, ...started })),
      ...[...this.#finished].map(([id, event]) => ({ kind: "finished" as const, id, event })),
      ...more,
    ];
    const frames = kept.map((entry) => encodeEntries([entry]));
    const bytes = Buffer.concat([encodeHeader(this.#header), ...frames]);
    const replaced = await this.#disk.replace(bytes);
    this.#broken = !replaced.ok;
    if (replaced.ok) this.#logBytes = bytes.length;
    return replaced;
  }

  #isWasteful(): boolean {
    return this.#logBytes > SPOOL_COMPACT_BYTES && this.#logBytes > 2 * this.#waitingBytes;
  }

  #apply(entry: Entry): void {
    switch (entry.kind) {
      case "started":
        this.#started.set(entry.id, entry.evidence);
        return;
      case "finished":
        this.#started.delete(entry.id);
        this.#finished.set(entry.id, entry.event);
        this.#waitingBytes += entry.event.length;
        return;
      case "forgotten":
        this.#started.delete(entry.id);
        return;
      case "acknowledged":
        this.#acknowledged = addSpan(this.#acknowledged, entry.from, entry.to);
        this.#drop(entry.from, entry.to);
        return;
      default:
        never(entry);
    }
  }

  #drop(from: number, to: number): void {
    if (from !== to && this.#finished.size === 0) return;
    for (const id of from === to ? [from] : [...this.#finished.keys()]) {
      if (id < from || id > to) continue;
      this.#waitingBytes -= this.#finished.get(id)?.length ?? 0;
      this.#finished.delete(id);
    }
  }
}

type Waiting = { readonly entry: Entry; readonly resolve: (result: Result<void>) => void };

function takeBatch(queue: Waiting[]): readonly Waiting[] {
  let count = 0;
  let bytes = 0;
  for (const { entry } of queue) {
    bytes += entry.kind === "finished" ? entry.event.length : 0;
    if (count > 0 && bytes > BATCH_LIMIT_BYTES) break;
    count++;
  }
  return queue.splice(0, count);
}

function headerFor(log: ReadLog, owner: SpoolOwner): Result<LogHeader> {
  const { cell, generation, identity } = owner;
  if (log.kind === "newer") {
    const message = `the cell's spool is of version ${log.version}`;
    return fail(fault("newer_version", message, cell, "use the Dev that wrote it, or a newer one"));
  }
  if (log.kind !== "log" || log.header.cell !== cell) return ok({ cell, generation, identity });
  if (log.header.generation > generation) {
    const message = `generation ${log.header.generation} of the cell has been started`;
    return fail(fault("superseded", message, cell, "use the newest link"));
  }
  return ok({ cell, generation, identity: log.header.identity });
}
