import type { Mode, Result } from "@dev/protocol";
import { fail, fault, ok } from "@dev/protocol";
import type { Asker } from "@dev/session";
import { type Activity, noActivity, openActivity } from "./activity.ts";
import { terminalAsker } from "./asker.ts";
import { EXIT } from "./exit.ts";
import { countText, grouped } from "./figure.ts";
import { openLabels } from "./label.ts";
import { printable } from "./say.ts";
import { textWatch } from "./text-watch.ts";
import { jsonWatch, type Watch } from "./watch.ts";

/** The person's end of the command: what it prints to, reads from, and is interrupted by. */
export type Terminal = {
  readonly env: NodeJS.ProcessEnv;
  /** Columns of what `print` writes to; null where that is no terminal. */
  readonly columnCount: number | null;
  /** Unix milliseconds. */
  nowMs(): number;
  /** From 0 to below 1. */
  random(): number;
  watch(json: boolean): Watch;
  /** The line that says what is at work, where there is one. */
  readonly activity: Activity;
  /** Null where nobody can be asked. */
  asker(json: boolean): Asker | null;
  defaultMode(json: boolean): Mode;
  /** Aborts at the first interrupt; at the second, the process ends at once, but for `onSecond`. */
  interrupts(onSecond?: () => void): { readonly signal: AbortSignal; release(): void };
  readStdin(limitBytes: number): Promise<Result<string>>;
  print(text: string): void;
  complain(text: string): void;
};

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
const USUAL_COLUMN_COUNT = 80;

/** The terminal of this process, with its time and its chance. */
export function processTerminal(nowMs: () => number, random: () => number): Terminal {
  const { stdin, stdout, stderr, env } = process;
  const attended = (json: boolean): boolean => !json && stdin.isTTY && stderr.isTTY;
  // A program gets what was said to the byte; a terminal only what cannot draw over the rest.
  const print = (text: string): void => {
    stdout.write(stdout.isTTY ? printable(text) : text);
  };
  const complain = (text: string): void => {
    stderr.write(text);
  };
  const isRich = stderr.isTTY && env.TERM !== "dumb";
  const colour = isRich && !env.NO_COLOR;
  const activity = isRich
    ? openActivity({
        write: complain,
        columnCount: () => stderr.columns || USUAL_COLUMN_COUNT,
        nowMs,
        dim: (text) => (colour ? `\x1b[2m${text}\x1b[22m` : text),
      })
    : noActivity(complain);
  const labels = openLabels();
  return {
    env,
    columnCount: stdout.isTTY ? stdout.columns || USUAL_COLUMN_COUNT : null,
    nowMs,
    random,
    print,
    complain,
    activity,
    watch: (json) =>
      json ? jsonWatch(print) : textWatch({ out: print, activity, labels, colour }),
    asker: (json) => {
      return attended(json)
        ? terminalAsker({ input: stdin, output: stderr, activity, labels })
        : null;
    },
    defaultMode: (json) => (attended(json) ? "ask" : "edits"),
    interrupts: (onSecond = () => {}) => {
      const onFirst = (): void => {
        if (isRich) activity.above("stopping … (once more ends it at once)\n");
      };
      return interruptsOf(onFirst, onSecond);
    },
    readStdin: (limitBytes) => readAll(stdin, limitBytes),
  };
}

function interruptsOf(
  onFirst: () => void,
  onSecond: () => void,
): { readonly signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  const interrupt = (): void => {
    if (controller.signal.aborted) {
      onSecond();
      process.exit(EXIT.interrupted);
    }
    controller.abort();
    onFirst();
  };
  for (const signal of SIGNALS) process.on(signal, interrupt);
  const release = (): void => {
    for (const signal of SIGNALS) process.off(signal, interrupt);
  };
  return { signal: controller.signal, release };
}

/** Reads stdin to its end, as UTF-8. Fault `usage`: over the limit, or not UTF-8. */
async function readAll(
  stdin: AsyncIterable<Buffer | string>,
  limitBytes: number,
): Promise<Result<string>> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk);
    sizeBytes += bytes.length;
    if (sizeBytes > limitBytes) {
      const message = `the prompt on stdin is over ${countText(limitBytes, "byte")}`;
      const mend = "put it into a file, and name that in the prompt";
      return fail(fault("usage", message, "", mend));
    }
    chunks.push(bytes);
  }
  const all = Buffer.concat(chunks);
  try {
    return ok(new TextDecoder("utf-8", { fatal: true }).decode(all));
  } catch {
    const at = grouped(firstBad(all));
    return fail(fault("usage", `the prompt on stdin is not UTF-8, at byte ${at}`));
  }
}

/** Where bytes stop being UTF-8, counted from 0. */
function firstBad(bytes: Buffer): number {
  // What cannot be decoded becomes U+FFFD: up to there the text is as long as its bytes were.
  const text = bytes.toString("utf8");
  let at = text.indexOf("\ufffd");
  while (at >= 0) {
    const offset = Buffer.byteLength(text.slice(0, at));
    if (bytes.compare(REPLACEMENT, 0, 3, offset, offset + 3) !== 0) return offset;
    at = text.indexOf("\ufffd", at + 1);
  }
  return 0;
}

const REPLACEMENT = Buffer.from("\ufffd");
