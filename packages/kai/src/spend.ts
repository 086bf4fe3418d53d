import { type FileHandle, mkdir, open, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { type Fault, fail, fault, ok, type Result, type Usage } from "@dev/protocol";

/** One call of a model, whatever became of it. */
export type SpendLine = {
  /** `g1`, `g2`, … within its run; the ledger names the same call so. */
  readonly id: string;
  /** When the call began, in Unix milliseconds. */
  readonly atMs: number;
  readonly model: string;
  readonly effort: string;
  /** What it was asked for, such as `low` or `repair`. */
  readonly stage: string;
  readonly status: "answered" | "failed" | "cancelled";
  readonly usage: Usage;
  readonly costMicroUsd: number;
  readonly billed: Billed;
  /** To the first piece of an answer; null where none came. */
  readonly firstMs: number | null;
  readonly ms: number;
  /** What went wrong; empty where nothing did. */
  readonly error: string;
};

/**
 * `usage`: by what the provider said was used; `estimate`: it did not say, and the most that it can
 * have been is counted; `none`: the call reached nobody who would bill it.
 */
export type Billed = "usage" | "estimate" | "none";

/**
 * An append-only file of JSON lines that says what was spent; each line is on the disk before the
 * next call.
 */
export interface Spend {
  /**
   * What the run has spent so far, in millionths of a US dollar, calls of an earlier process
   * included.
   */
  readonly spentMicroUsd: number;
  /** How many calls of the run the file has. */
  readonly callCount: number;
  /** Faults: `io`. */
  append(line: SpendLine): Promise<Result<null>>;
  close(): Promise<void>;
}

const VERSION = 1;

/**
 * Opens the file for a run, with its directory, and adds up what the run spent before. Faults:
 * `io`.
 */
export async function openSpend(path: string, run: string): Promise<Result<Spend>> {
  let file: FileHandle | null = null;
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    file = await open(path, "a", 0o600);
    const text = await readFile(path, "utf8");
    // A process that was killed while it wrote leaves half a line, which must not spoil the next
    // one.
    if (text !== "" && !text.endsWith("\n")) await file.appendFile("\n");
    await file.sync();
    await syncDirectory(dirname(path));
    return ok(spendOf(path, file, run, costsOf(text, run)));
  } catch (error) {
    await file?.close();
    return fail(ioFault(error, path));
  }
}

function spendOf(path: string, file: FileHandle, run: string, before: readonly number[]): Spend {
  let spentMicroUsd = before.reduce((sum, cost) => sum + cost, 0);
  let callCount = before.length;
  let last: Promise<unknown> = Promise.resolve();
  const write = async (line: SpendLine): Promise<Result<null>> => {
    try {
      await file.appendFile(`${JSON.stringify({ version: VERSION, run, ...line })}\n`);
      await file.sync();
      return ok(null);
    } catch (error) {
      return fail(ioFault(error, path));
    }
  };
  return {
    get spentMicroUsd() {
      return spentMicroUsd;
    },
    get callCount() {
      return callCount;
    },
    append(line) {
      // Spent is spent, also where it cannot be written down.
      spentMicroUsd += line.costMicroUsd;
      callCount += 1;
      const written = last.then(() => write(line));
      last = written;
      return written;
    },
    async close() {
      await last;
      await file.close();
    },
  };
}

/** What each call of a run cost; half a line, or one of somebody else's, is passed over. */
function costsOf(text: string, run: string): readonly number[] {
  return text.split("\n").flatMap((line) => {
    let said: unknown;
    try {
      said = JSON.parse(line);
    } catch {
      return [];
    }
    if (typeof said !== "object" || said === null) return [];
    const { run: whose, costMicroUsd: cost } = said as Record<string, unknown>;
    return whose === run && typeof cost === "number" && Number.isSafeInteger(cost) ? [cost] : [];
  });
}

/** A file is only there after a crash if its directory says so on the disk. */
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

function ioFault(error: unknown, path: string): Fault {
  if (!(error instanceof Error) || !("code" in error)) throw error;
  return fault("io", `what was spent cannot be written down: ${error.message}`, path);
}
