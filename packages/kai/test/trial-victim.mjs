// Opens trials, and tries candidates until it is killed; says when it has tried the first.
import { spawn } from "node:child_process";

const sample = JSON.parse(process.argv[2] ?? "");
const { openTrials } = await import(sample.built);

const shell = {
  start({ argv, cwd, env, stdin }) {
    const stdio = [stdin === "pipe" ? "pipe" : "ignore", "pipe", "pipe"];
    const child = spawn(argv[0], argv.slice(1), { cwd, env, stdio, detached: true });
    const ended = new Promise((resolve) => {
      child.on("exit", (code) => resolve({ kind: "exit", code: code ?? 1 }));
    });
    const { stdout, stderr } = child;
    const kill = () => {
      if (child.exitCode === null) process.kill(-child.pid, "SIGKILL");
    };
    return { stdin: child.stdin, stdout, stderr, ended, kill };
  },
};
const signal = new AbortController().signal;
const { PATH, HOME } = process.env;
const opened = await openTrials(
  {
    ...sample,
    shell,
    command: { argv: sample.argv, cwd: "." },
    env: { PATH, HOME },
    base: { runner: "unknown", failingTests: [], testCount: null, durationMs: 5_000 },
    slotCount: 2,
    nowMs: () => performance.now(),
  },
  signal,
);
const from = sample.files[sample.file].indexOf(sample.fault);
const edit = (text) => ({ file: sample.file, from, to: from + sample.fault.length, text });
const candidate = (text) => ({ edits: [edit(text)], operator: "", site: {}, weight: 1 });
for (;;) {
  await opened.value.try(candidate(sample.wrong), 20_000, signal);
  void opened.value.try(candidate(sample.hanging), 1_000, signal);
  console.log("tried");
}
