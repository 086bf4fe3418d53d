import type { Readable } from "node:stream";
import type { Output } from "./report/report.ts";
import type { Shell, Start } from "./shell.ts";

/** More than this, and a timer of Node's fires at once. */
export const TIMER_MAX_MS: number = 2 ** 31 - 1;

/** What became of a command that was run to its end, or to its deadline. */
export type Execution =
  | { readonly kind: "ran"; readonly output: Output; readonly durationMs: number }
  /** It could not be started at all; `why` says it. */
  | { readonly kind: "not_run"; readonly why: string };

export const EXECUTION_LIMITS = {
  /** Of each stream, what is kept: the beginning, where a failure is told, and the end, where it is summed up. */
  headBytes: 1_000_000,
  tailBytes: 1_000_000,
  /** A command that prints more is stopped. */
  printedBytes: 256_000_000,
} as const;

/** Runs a command and keeps what it prints. Rejects only when aborted; all that it started has ended then. */
export async function execute(
  shell: Shell,
  start: Start,
  deadlineMs: number,
  nowMs: () => number,
  signal: AbortSignal,
): Promise<Execution> {
  signal.throwIfAborted();
  const beganMs = nowMs();
  const running = shell.start(start);
  const kill = (): void => running.kill();
  let isLate = false;
  const timer = setTimeout(
    () => {
      isLate = true;
      kill();
    },
    Math.min(deadlineMs, TIMER_MAX_MS),
  );
  signal.addEventListener("abort", kill, { once: true });
  const [stdout, stderr] = [kept(running.stdout, kill), kept(running.stderr, kill)];
  const ended = await running.ended;
  clearTimeout(timer);
  signal.removeEventListener("abort", kill);
  // What it left running goes with it.
  kill();
  signal.throwIfAborted();
  if (ended.kind === "spawn") {
    const said = stderr().trim().split("\n").at(-1) ?? "";
    return { kind: "not_run", why: said === "" ? ended.why : `${ended.why}: ${said}` };
  }
  const end: Output["end"] = isLate ? { kind: "timeout" } : ended;
  const output = { stdout: stdout(), stderr: stderr(), end };
  return { kind: "ran", output, durationMs: nowMs() - beganMs };
}

export function hasPassed({ end }: Pick<Output, "end">): boolean {
  return end.kind === "exit" && end.code === 0;
}

/** How a command ended, in words. */
export function endText(end: Output["end"]): string {
  switch (end.kind) {
    case "exit":
      return `exit status ${end.code}`;
    case "signal":
      return `ended by ${end.signal}`;
    case "timeout":
      return "stopped at its deadline";
  }
}

/** Reads all, so that nobody waits on a pipe. */
function kept(stream: Readable, stop: () => void): () => string {
  const { headBytes, tailBytes, printedBytes } = EXECUTION_LIMITS;
  const head: Buffer[] = [];
  const tail: Buffer[] = [];
  let [headSize, tailSize, allSize] = [0, 0, 0];
  stream.on("data", (chunk: Buffer) => {
    allSize += chunk.length;
    if (allSize > printedBytes) stop();
    if (headSize < headBytes) {
      headSize += chunk.length;
      head.push(chunk);
      return;
    }
    tailSize += chunk.length;
    tail.push(chunk);
    while (tailSize - (tail[0]?.length ?? 0) >= tailBytes) tailSize -= tail.shift()?.length ?? 0;
  });
  return () => Buffer.concat([...head, ...tail]).toString("utf8");
}
