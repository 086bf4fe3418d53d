// A plain shell for measuring: processes in groups of their own, confined by nothing.
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { finished } from "node:stream/promises";

export const plainShell = {
  /** With `keeps`, what a process has started is left to itself when that ends; Kai's seam has no such thing. */
  start({ argv, cwd, env, stdin, keeps = false }) {
    const child = spawn(argv[0], argv.slice(1), {
      cwd,
      env,
      detached: true,
      stdio: [stdin === "pipe" ? "pipe" : "ignore", "pipe", "pipe"],
    });
    child.stdin?.on("error", () => {});
    const { stdin: input, stdout, stderr } = child;
    return {
      stdin: input,
      stdout,
      stderr,
      ended: ended(child, keeps),
      kill: () => kill(child),
      pid: child.pid,
    };
  },
};

/** How long what was left behind may hold the pipes open. */
const GRACE_MS = 300;

function ended(child, keeps) {
  return new Promise((resolve) => {
    child.once("error", ({ message }) => resolve({ kind: "spawn", why: message }));
    child.once("exit", (code, signal) => {
      if (!keeps) kill(child);
      const end = code === null ? { kind: "signal", signal } : { kind: "exit", code };
      const pipes = Promise.allSettled([finished(child.stdout), finished(child.stderr)]);
      const late = setTimeout(() => {
        for (const pipe of [child.stdout, child.stderr]) pipe.destroy();
      }, GRACE_MS);
      if (!keeps) clearTimeout(late);
      void pipes.then(() => {
        clearTimeout(late);
        resolve(end);
      });
    });
  });
}

function kill(child) {
  if (child.pid === undefined) return;
  for (const pid of [...descendants(child.pid)].reverse()) signal(pid);
  signal(-child.pid);
}

function* descendants(pid) {
  let children = "";
  try {
    children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  } catch {
    return;
  }
  for (const child of children.split(" ").filter(Boolean)) {
    yield Number(child);
    yield* descendants(Number(child));
  }
}

function signal(pid) {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (error.code !== "ESRCH" && error.code !== "EPERM") throw error;
  }
}

/** What a run needs of this process's environment, and nothing that could change what a test does. */
export function plainEnv() {
  const kept = ["PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "JAVA_HOME", "GOPATH", "GOCACHE"];
  return Object.fromEntries(
    kept.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}

/**
 * Runs a command to its end or its deadline, or to a `kill`: `{ afterMs, signal }`. `endMs` is how long it took.
 */
export async function run(
  argv,
  cwd,
  deadlineMs,
  env = plainEnv(),
  { keeps = false, kill = null } = {},
) {
  const from = performance.now();
  const running = plainShell.start({ argv, cwd, env, stdin: "none", keeps });
  const killing = kill && setTimeout(() => killed(running.pid, kill.signal), kill.afterMs);
  const [out, err] = [collected(running.stdout), collected(running.stderr)];
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    running.kill();
  }, deadlineMs);
  const end = await running.ended;
  clearTimeout(timer);
  clearTimeout(killing);
  const output = { stdout: await out, stderr: await err, end: isLate ? { kind: "timeout" } : end };
  return { ...output, endMs: performance.now() - from };
}

/** A person's Ctrl-C comes to all that a terminal runs; a kill comes to one process. */
export function killed(pid, name) {
  try {
    process.kill(name === "SIGINT" ? -pid : pid, name);
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

const OUTPUT_MAX = 8_000_000;

async function collected(stream) {
  let text = "";
  stream.setEncoding("utf8");
  try {
    for await (const chunk of stream) if (text.length < OUTPUT_MAX) text += chunk;
  } catch {
    // The process was killed, and what it had written is what there is.
  }
  return text;
}

/** Processes that live now and have `mark` in their environment: what a run has left behind. */
export function alive(mark) {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, "latin1").includes(mark);
      } catch {
        return false;
      }
    })
    .map(Number);
}
