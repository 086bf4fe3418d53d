import type { Mode, Result } from "@dev/protocol";
import { fail, fault, ok } from "@dev/protocol";
import type { Asker } from "@dev/session";
import { terminalAsker } from "./asker.ts";
import { textWatch } from "./text-watch.ts";
import { jsonWatch, type Watch } from "./watch.ts";

/** The person's end of the command: what it prints to, reads from, and is interrupted by. */
export type Terminal = {
  readonly env: NodeJS.ProcessEnv;
  /** Unix milliseconds. */
  nowMs(): number;
  /** From 0 to below 1. */
  random(): number;
  watch(json: boolean): Watch;
  /** Null where nobody can be asked. */
  asker(json: boolean): Asker | null;
  defaultMode(json: boolean): Mode;
  /** Aborts at the first interrupt; at the second, the process ends at once. */
  interrupts(): { readonly signal: AbortSignal; release(): void };
  readStdin(limitBytes: number): Promise<Result<string>>;
  print(text: string): void;
  complain(text: string): void;
};

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** The terminal of this process, with its time and its chance. */
export function processTerminal(nowMs: () => number, random: () => number): Terminal {
  const { stdin, stdout, stderr, env } = process;
  const attended = (json: boolean): boolean => !json && stdin.isTTY && stderr.isTTY;
  const print = (text: string): void => {
    stdout.write(text);
  };
  const complain = (text: string): void => {
    stderr.write(text);
  };
  const colour = stderr.isTTY && !env.NO_COLOR && env.TERM !== "dumb";
  return {
    env,
    nowMs,
    random,
    print,
    complain,
    watch: (json) => (json ? jsonWatch(print) : textWatch({ out: print, err: complain, colour })),
    asker: (json) => (attended(json) ? terminalAsker(stdin, stderr) : null),
    defaultMode: (json) => (attended(json) ? "ask" : "edits"),
    interrupts: () => {
      const controller = new AbortController();
      const interrupt = (): void => {
        if (controller.signal.aborted) process.exit(130);
        controller.abort();
      };
      for (const signal of SIGNALS) process.on(signal, interrupt);
      const release = (): void => {
        for (const signal of SIGNALS) process.off(signal, interrupt);
      };
      return { signal: controller.signal, release };
    },
    readStdin: async (limitBytes) => {
      const chunks: Buffer[] = [];
      let sizeBytes = 0;
      for await (const chunk of stdin as AsyncIterable<Buffer>) {
        sizeBytes += chunk.length;
        if (sizeBytes > limitBytes) {
          return fail(fault("usage", `the prompt on stdin is over ${limitBytes} bytes`));
        }
        chunks.push(chunk);
      }
      return ok(Buffer.concat(chunks).toString("utf8"));
    },
  };
}
