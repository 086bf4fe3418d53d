import { appendFileSync, existsSync, mkdirSync, renameSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { type Action, mayBecome, type Status } from "./action.ts";

/** The file in which a run says all that it did; a line is JSON, and has the version of its shape. */
export type Ledger = {
  readonly path: string;
  readonly task: string;
  /** Says something that is no action: how the run began, a transition and its reason, how it ended. */
  note(kind: NoteKind, fields: Readonly<Record<string, unknown>>): void;
  /** Begins an action; nothing is written of it before its next status. */
  begin(draft: Omit<Action, "id" | "task">): Open;
  /** Writes what waits to be written. */
  flush(): void;
};

export type NoteKind =
  | "begun"
  | "transition"
  /** What a model was asked, a call that was stopped, what was decided, and that no more is asked. */
  | "generate"
  | "cancel"
  | "decide"
  | "stop"
  | "progress"
  | "coverage"
  | "ranking"
  | "trials"
  | "compared"
  | "failure"
  | "ended";

/** An action under way. */
export type Open = {
  readonly action: Action;
  readonly status: Status;
  /** The next status, and what came of it; throws where no action may go that way. */
  become(status: Status, result?: Readonly<Record<string, unknown>>): void;
};

export const LEDGER_LIMITS = {
  /** A ledger that is longer is put aside under `.1`, in place of the one before. */
  sizeBytes: 64_000_000,
  /** Lines that wait; what a run of thousands of candidates writes is written some at a time. */
  waitingCount: 200,
  textChars: 4_000,
  /** A value of the environment that is shorter is no secret, and may be a word of any text. */
  secretChars: 6,
} as const;

export type LedgerOptions = {
  readonly path: string;
  readonly task: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly nowMs: () => number;
};

/** Opens a ledger to be added to, making its directory; throws where it cannot be written. */
export function openLedger({ path, task, env, nowMs }: LedgerOptions): Ledger {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  if (existsSync(path) && statSync(path).size > LEDGER_LIMITS.sizeBytes) {
    renameSync(path, `${path}.1`);
  }
  const redact = redactor(env);
  let waiting: string[] = [];
  let count = 0;
  const flush = (): void => {
    if (waiting.length === 0) return;
    appendFileSync(path, waiting.join(""), { mode: 0o600 });
    waiting = [];
  };
  const write = (line: Readonly<Record<string, unknown>>): void => {
    const whole = { version: 1, task, at_ms: nowMs(), ...line };
    waiting.push(`${JSON.stringify(whole, (_, value: unknown) => redact(value))}\n`);
    if (waiting.length >= LEDGER_LIMITS.waitingCount) flush();
  };
  return {
    path,
    task,
    flush,
    note(kind, fields) {
      write({ kind, ...fields });
      flush();
    },
    begin(draft) {
      count += 1;
      return opened({ ...draft, id: `a${count}`, task }, nowMs, write);
    },
  };
}

/** A ledger that nobody keeps. */
export function noLedger(task: string): Ledger {
  const nothing = (): void => {};
  let count = 0;
  return {
    path: "",
    task,
    note: nothing,
    flush: nothing,
    begin(draft) {
      count += 1;
      return opened({ ...draft, id: `a${count}`, task }, () => 0, nothing);
    },
  };
}

function opened(
  action: Action,
  nowMs: () => number,
  write: (line: Readonly<Record<string, unknown>>) => void,
): Open {
  const beganMs = nowMs();
  const path: Status[] = ["eligible"];
  let isTold = false;
  return {
    action,
    get status() {
      return path.at(-1) ?? "eligible";
    },
    become(status, result = {}) {
      const from = path.at(-1) ?? "eligible";
      if (!mayBecome(from, status)) throw new Error(`${action.id} went from ${from} to ${status}`);
      path.push(status);
      // On the way to a trial's result nothing is worth a line of its own.
      if (status === "attempted" || status === "completed") return;
      const { id, task: _, ...rest } = action;
      const whole = isTold ? {} : rest;
      isTold = true;
      write({ kind: "action", id, status, path, ms: nowMs() - beganMs, ...whole, result });
    },
  };
}

const SECRET = /KEY|TOKEN|SECRET|PASS(WORD|WD|PHRASE)?$|CREDENTIAL|AUTH|COOKIE|PRIVATE|DSN|_URL$/i;

/** Takes out the values of the environment whose names say that they are nobody's business. */
function redactor(env: Readonly<Record<string, string | undefined>>): (value: unknown) => unknown {
  const secrets = Object.entries(env).flatMap(([name, value]) =>
    SECRET.test(name) && value !== undefined && value.length >= LEDGER_LIMITS.secretChars
      ? [{ name, value }]
      : [],
  );
  secrets.sort((a, b) => b.value.length - a.value.length);
  return (value) => {
    if (typeof value !== "string") return value;
    let text = value;
    for (const secret of secrets) text = text.replaceAll(secret.value, `[${secret.name}]`);
    const { textChars } = LEDGER_LIMITS;
    return text.length > textChars ? `${text.slice(0, textChars)}…` : text;
  };
}
