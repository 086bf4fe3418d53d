import { createInterface } from "node:readline";
import type { Running, Shell, Start } from "../shell.ts";

/** What a worker says of the code that it was given; `names` of failing tests are as its runner has them. */
export type Answer = {
  readonly kind:
    | "passed"
    | "failed"
    | "broken"
    | "timeout"
    | "unsure"
    | "cancelled"
    | "lost"
    | "covered";
  readonly failed: readonly string[];
  /** Tests that ran to their end, or 0 where the runner has none. */
  readonly ranCount: number;
  /** Something was written where the tests are; it has to be mended. */
  readonly wrote: boolean;
  /** A process was started that reads the files, and not what the worker has in memory. */
  readonly spawned: boolean;
  /** What a probe wrote, where it was run for that. */
  readonly said: string | null;
  /** How long it ran; null where that is as long as the answer took. */
  readonly tookMs: number | null;
  /** Of what came to its deadline: whether it had less, and whether it passed a test that is known to fail. */
  readonly isBrief: boolean;
  readonly isNear: boolean;
};

export type Ask = {
  /** `prove`: the files as they are, each test; `try`: until the first test fails; `cover`: with a probe. */
  readonly kind: "prove" | "try" | "cover";
  readonly files: ReadonlyMap<string, FileChange>;
  readonly deadlineMs: number;
  /** In a proof: how many candidates it may run at a time, where it is given more than it can run. */
  readonly slots?: number;
  /** In a proof: the deadline is for each test. */
  readonly isEach?: boolean;
  /** It has a process of its own, with all of its deadline. */
  readonly alone?: boolean;
  /** The text of the probe. */
  readonly probe?: string;
};

/** A file's whole text, or its edits as `[from, to, text]`, in characters of the text that the tree has. */
export type FileChange = string | readonly (readonly [number, number, string])[];

export const WORKER_LIMITS = {
  startMs: 60_000,
  /** How much later than a deadline a word may come before the worker is given up. */
  graceMs: 1_500,
  /** A worker that counts the time on the processor may let a candidate have so many times its deadline. */
  clockFactor: 8,
  lineBytes: 1_000_000,
  /** Of what a worker prints beside its answers. */
  wordsBytes: 4_096,
} as const;

/** A process that tries candidates in its memory; it is asked in lines of JSON, and so answers. */
export class Worker {
  readonly #running: Running;
  readonly #open = new Map<number, (answer: Answer) => void>();
  readonly #ready: Promise<string | null>;
  #tell: (why: string | null) => void = () => {};
  #words = "";
  #lastId = 0;
  #isGone = false;

  readonly #isQueued: boolean;
  #silence: NodeJS.Timeout | undefined;
  #silenceMs = 0;

  constructor(shell: Shell, start: Start, isQueued: boolean) {
    this.#isQueued = isQueued;
    this.#ready = new Promise((resolve) => {
      this.#tell = resolve;
    });
    this.#running = shell.start(start);
    createInterface({ input: this.#running.stdout }).on("line", (line) => this.#hear(line));
    this.#running.stderr.on("data", (chunk: Buffer) => {
      this.#words = (this.#words + chunk.toString("utf8")).slice(-WORKER_LIMITS.wordsBytes);
    });
    void this.#running.ended.then(() => this.#leave());
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** Why it cannot be used; null once it can. */
  async ready(signal: AbortSignal): Promise<string | null> {
    const kill = () => this.#running.kill();
    const timer = setTimeout(kill, WORKER_LIMITS.startMs);
    signal.addEventListener("abort", kill, { once: true });
    if (signal.aborted) kill();
    const why = await this.#ready;
    clearTimeout(timer);
    signal.removeEventListener("abort", kill);
    return why;
  }

  /** Resolves when the worker is done with it, also after the signal aborted; never rejects. */
  async ask(ask: Ask, signal: AbortSignal): Promise<Answer> {
    this.#lastId += 1;
    const id = this.#lastId;
    const answer = new Promise<Answer>((resolve) => this.#open.set(id, resolve));
    this.#watch(ask.deadlineMs);
    const cancel = () => this.#say({ id, kind: "cancel" });
    signal.addEventListener("abort", cancel, { once: true });
    this.#say({ ...ask, id, files: Object.fromEntries(ask.files) });
    if (signal.aborted) cancel();
    if (this.#isGone) this.#leave();
    const heard = await answer;
    signal.removeEventListener("abort", cancel);
    if (this.#open.size === 0) this.#rest();
    return heard;
  }

  kill(): void {
    this.#running.kill();
  }

  /** Gives it up once it has said nothing for longer than any deadline lets it. */
  #watch(deadlineMs: number): void {
    const { clockFactor, graceMs } = WORKER_LIMITS;
    const limitMs = deadlineMs * (this.#isQueued ? clockFactor : 1) + graceMs;
    this.#silenceMs = this.#open.size === 1 ? limitMs : Math.max(this.#silenceMs, limitMs);
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.kill(), this.#silenceMs);
  }

  #rest(): void {
    clearTimeout(this.#silence);
    this.#silence = undefined;
  }

  async close(): Promise<void> {
    this.kill();
    await this.#running.ended;
  }

  #say(message: object): void {
    if (!this.#isGone) this.#running.stdin?.write(`${JSON.stringify(message)}\n`);
  }

  #hear(line: string): void {
    const message = line.length > WORKER_LIMITS.lineBytes ? null : read(line);
    // What is no answer was printed by the code under test.
    if (message === null) return;
    this.#silence?.refresh();
    if (message.kind === "ready") this.#tell(null);
    else if (message.kind === "unfit") this.#tell(String(message.why ?? ""));
    else {
      const answer = answerOf(message);
      const id = Number(message.id);
      // It says that it ends now, so nothing more is asked of it.
      if (message.isLast === true) this.#isGone = true;
      if (answer !== null) this.#open.get(id)?.(answer);
      if (answer !== null) this.#open.delete(id);
    }
  }

  #leave(): void {
    this.#isGone = true;
    this.#tell(`it ended: ${this.#words.trim()}`);
    this.#rest();
    for (const resolve of this.#open.values()) resolve(LOST);
    this.#open.clear();
  }
}

const LOST: Answer = {
  kind: "lost",
  failed: [],
  ranCount: 0,
  wrote: true,
  spawned: false,
  said: null,
  tookMs: null,
  isBrief: false,
  isNear: false,
};

type Message = Readonly<Record<string, unknown>>;

function read(line: string): Message | null {
  if (!line.startsWith("{")) return null;
  try {
    const message: unknown = JSON.parse(line);
    return typeof message === "object" ? (message as Message | null) : null;
  } catch {
    return null;
  }
}

const KINDS: readonly Answer["kind"][] = [
  "passed",
  "failed",
  "broken",
  "timeout",
  "unsure",
  "cancelled",
  "covered",
];

function answerOf(message: Message): Answer | null {
  const kind = KINDS.find((known) => known === message.kind);
  if (kind === undefined || typeof message.id !== "number") return null;
  return {
    kind,
    failed: Array.isArray(message.failed) ? message.failed.map(String) : [],
    ranCount: Number(message.ranCount ?? 0),
    wrote: message.wrote === true,
    spawned: message.spawned === true,
    said: typeof message.said === "string" ? message.said : null,
    tookMs: typeof message.tookMs === "number" ? message.tookMs : null,
    isBrief: message.isBrief === true,
    isNear: message.isNear === true,
  };
}
