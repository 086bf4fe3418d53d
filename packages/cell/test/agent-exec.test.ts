import { readdirSync, readFileSync } from "node:fs";
import { chmod, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { actionId, type ExecOp, type ExecResult, type Outcome } from "@dev/protocol";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { Capture } from "../src/agent/capture.ts";
import { COMMAND_TIMEOUT_LIMIT_MS, Commands } from "../src/agent/exec.ts";
import { DEFAULT_CELL_LIMITS } from "../src/limits.ts";
import type { CellLimits } from "../src/vendor.ts";
import { exec, IDLE, realClock, scratch, sh } from "./cell.ts";

type Shop = {
  readonly root: string;
  readonly commands: Commands;
  run(op: ExecOp, signal?: AbortSignal): Promise<Outcome>;
  /** What was written while it ran. */
  readonly deltas: { stream: string; text: string }[];
};

let identities = 0;

async function shop(limits: Partial<CellLimits> = {}): Promise<Shop> {
  const directory = await scratch();
  const root = join(directory, "workspace");
  await mkdir(root);
  identities++;
  const opened = await Commands.open({
    network: null,
    directory: join(directory, "spool"),
    identity: `test-${process.pid}-${identities}`,
    limits: { ...DEFAULT_CELL_LIMITS, ...limits },
    base: { PATH: process.env.PATH ?? "", BASE: "base" },
    clock: realClock,
    written: [root],
  });
  if (!opened.ok) throw new Error(opened.fault.message);
  const commands = opened.value;
  onTestFinished(() => commands.killAll());
  const deltas: { stream: string; text: string }[] = [];
  let id = 0;
  return {
    root,
    commands,
    deltas,
    run: (op, signal = IDLE) => {
      const onText = (stream: string, text: string) => void deltas.push({ stream, text });
      id++;
      return commands.run({ ...op, cwd: join(root, op.cwd), id: actionId(id) }, onText, signal);
    },
  };
}

function resultOf(outcome: Outcome): ExecResult {
  if (outcome.kind !== "ok" || outcome.result.kind !== "exec") {
    throw new Error(JSON.stringify(outcome));
  }
  return outcome.result;
}

const faultOf = (outcome: Outcome) => (outcome.kind === "failed" ? outcome.fault.code : "none");

/** A time to sleep for, in seconds, that no other run of these tests sleeps for. */
const nap = (number: number): string => `${number}${String(process.pid).padStart(7, "0")}`;

/** Processes whose command line has this in it, but for the one that looks. */
function processesWith(mark: string): number {
  let count = 0;
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, "latin1");
      if (words.includes(mark) && Number(pid) !== process.pid) count++;
    } catch {
      // It has ended meanwhile.
    }
  }
  return count;
}

async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await realClock.sleep(5);
}

test("a command's exit code, its streams and its duration are its result", async () => {
  const { run } = await shop();
  const result = resultOf(await run(sh("echo out; echo err >&2; exit 7")));
  expect(result).toMatchObject({
    end: { kind: "exit", code: 7 },
    stdout: "out\n",
    stderr: "err\n",
    stdoutCutBytes: 0,
    outputPath: "",
  });
  expect(Number.isInteger(result.durationMs)).toBe(true);
});

test("no shell reads the words of a command", async () => {
  const { run } = await shop();
  const words = ["$HOME", "a b", "*", ";", "'"];
  expect(resultOf(await run(exec("printf", "%s\n", ...words))).stdout).toBe(
    `${words.join("\n")}\n`,
  );
});

test("a command that ends by a signal says which", async () => {
  const { run } = await shop();
  expect(resultOf(await run(sh("kill -SEGV $$"))).end).toEqual({
    kind: "signal",
    signal: "SIGSEGV",
  });
});

test("stdin is empty unless given, and what is given is read to its end", async () => {
  const { run } = await shop();
  expect(resultOf(await run(exec("cat"))).stdout).toBe("");
  const text = "x".repeat(300_000);
  const result = resultOf(await run({ ...exec("wc", "-c"), stdin: text }));
  expect(result.stdout.trim()).toBe("300000");
  const again = resultOf(await run({ ...exec("cat", "/dev/stdin"), stdin: "hello" }));
  expect(again.stdout).toBe("hello");
});

test("a program that does not read its stdin is not harmed by it", async () => {
  const { run } = await shop();
  const result = resultOf(await run({ ...exec("true"), stdin: "x".repeat(1_000_000) }));
  expect(result.end).toEqual({ kind: "exit", code: 0 });
});

test("a program can open /dev/stdout and /dev/stderr", async () => {
  const { run } = await shop();
  const result = resultOf(
    await run(sh("echo a > /dev/stdout; echo b > /dev/stderr; echo c | tee /dev/stderr")),
  );
  expect(result).toMatchObject({ stdout: "a\nc\n", stderr: "b\nc\n" });
});

test("the environment is the base, the op's variables over it, and nothing of the agent's", async () => {
  const { run } = await shop();
  process.env.DEV_TEST_SECRET = "secret";
  onTestFinished(() => void delete process.env.DEV_TEST_SECRET);
  const env = [
    { name: "MINE", value: "a=b" },
    { name: "BASE", value: "over" },
  ];
  const { stdout } = resultOf(await run({ ...exec("env"), env }));
  const names = stdout
    .trim()
    .split("\n")
    .map((line) => line.split("=")[0]);
  expect(names.sort()).toEqual(["BASE", "DEV_CELL_COMMAND", "MINE", "PATH", "PWD"]);
  expect(stdout).toContain("MINE=a=b\n");
  expect(stdout).toContain("BASE=over\n");
});

test("a command starts in its directory", async () => {
  const { run, root } = await shop();
  await mkdir(join(root, "sub"));
  expect(resultOf(await run({ ...exec("pwd"), cwd: "sub" })).stdout).toBe(`${join(root, "sub")}\n`);
});

test("calls that cannot be made are refused by name", async () => {
  const { commands } = await shop();
  const codeOf = (op: ExecOp) => {
    const checked = commands.check(op);
    return checked.ok ? "ok" : checked.fault.code;
  };
  expect(codeOf(exec("true"))).toBe("ok");
  expect(codeOf(exec())).toBe("bad_call");
  expect(codeOf(exec("a\0b"))).toBe("bad_call");
  expect(codeOf({ ...exec("true"), env: [{ name: "A=B", value: "" }] })).toBe("bad_call");
  expect(codeOf({ ...exec("true"), timeoutMs: COMMAND_TIMEOUT_LIMIT_MS + 1 })).toBe("bad_call");
});

test("a program that does not start says which, why and what to do", async () => {
  const { run, root } = await shop();
  await writeFile(join(root, "plain"), "text");
  await writeFile(join(root, "script"), "#!/no/such/interpreter\n");
  await chmod(join(root, "script"), 0o755);
  const missing = await run(exec("no-such-program"));
  expect(missing).toMatchObject({ fault: { code: "not_found", subject: "no-such-program" } });
  expect(missing.kind === "failed" && missing.fault.mend).not.toBe("");
  expect(faultOf(await run(exec("./none")))).toBe("not_found");
  expect(faultOf(await run(exec("./plain")))).toBe("spawn");
  const script = await run(exec("./script"));
  expect(script).toMatchObject({ fault: { code: "spawn" } });
  expect(script.kind === "failed" && script.fault.message).toContain("interpreter");
  const long = await run(exec("true", "x".repeat(3_000_000)));
  expect(long).toMatchObject({ fault: { code: "spawn", subject: "true" } });
  expect(resultOf(await run(exec("true"))).end).toEqual({ kind: "exit", code: 0 });
});

test("bytes that are not UTF-8 and line endings come through as they are", async () => {
  const { run } = await shop();
  const result = resultOf(await run(exec("printf", "a\\r\\nb\\r\\xe9\\xff\\n\\tc")));
  expect(result.stdout).toBe("a\r\nb\r\ufffd\ufffd\n\tc");
});

test("output is kept head and tail, and the whole of it lies in a file", async () => {
  const { run } = await shop({ outputBytes: 100 });
  const result = resultOf(await run(sh("seq 1 1000; echo err >&2")));
  const whole = Array.from({ length: 1000 }, (_, index) => `${index + 1}\n`).join("");
  expect(result.stdout).toBe(whole.slice(0, 50) + whole.slice(-50));
  expect(result.stdoutCutBytes).toBe(whole.length - 100);
  expect(result).toMatchObject({ stderr: "err\n", stderrCutBytes: 0 });
  const kept = await readFile(result.outputPath, "utf8");
  expect(kept.replace("err\n", "")).toBe(whole);
  // A later command of the same cell can look at it.
  const line = resultOf(await run(exec("sed", "-n", "500p", result.outputPath)));
  expect(line.stdout).toMatch(/^(499|500|err)\n$/);
});

test("the head and the tail are cut between characters, for any output", () => {
  const chunk = fc.oneof(
    fc.string({ unit: "binary", maxLength: 20 }).map((text) => Buffer.from(text)),
    fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
  );
  fc.assert(
    fc.property(
      fc.array(chunk, { maxLength: 20 }),
      fc.integer({ min: 0, max: 64 }),
      (chunks, limit) => {
        const capture = new Capture(limit);
        for (const bytes of chunks) capture.push(bytes);
        const whole = Buffer.concat(chunks);
        const { text, cutBytes } = capture.text();
        const half = Math.floor(limit / 2);
        if (whole.length <= 2 * half) {
          expect(cutBytes).toBe(0);
          expect(text).toBe(whole.toString());
        }
        const head = whole.subarray(0, half);
        const tail = whole.subarray(Math.max(half, whole.length - half));
        expect(cutBytes).toBeGreaterThanOrEqual(whole.length - head.length - tail.length);
        expect(cutBytes).toBeLessThanOrEqual(whole.length - head.length - tail.length + 6);
      },
    ),
    { numRuns: 1_000 },
  );
});

test("text that is cut never shows half a character", () => {
  const sample = fc.string({ unit: fc.constantFrom("a", "é", "€", "😀"), maxLength: 80 });
  fc.assert(
    fc.property(sample, fc.integer({ min: 0, max: 40 }), (text, limit) => {
      const capture = new Capture(limit);
      const whole = Buffer.from(text);
      for (const byte of whole) capture.push(Buffer.from([byte]));
      const kept = capture.text();
      expect(kept.text).not.toContain("\ufffd");
      expect(Buffer.byteLength(kept.text) + kept.cutBytes).toBe(whole.length);
    }),
  );
});

test("what a command writes is told while it runs", async () => {
  const { run, deltas, root } = await shop();
  const running = run(
    sh("echo one; echo two >&2; until [ -e go ]; do sleep 0.02; done; echo three"),
  );
  await until(() => deltas.length === 2);
  expect(deltas).toContainEqual({ stream: "stdout", text: "one\n" });
  expect(deltas).toContainEqual({ stream: "stderr", text: "two\n" });
  await writeFile(join(root, "go"), "");
  await running;
  expect(deltas.at(-1)).toEqual({ stream: "stdout", text: "three\n" });
});

test("a deadline ends the command and everything in its group", async () => {
  const { run } = await shop();
  const op = sh(`sleep ${nap(4711)} & sleep ${nap(4711)} & echo begun; wait`);
  const result = resultOf(await run({ ...op, timeoutMs: 1_000 }));
  expect(result).toMatchObject({ end: { kind: "timeout", afterMs: 1_000 }, stdout: "begun\n" });
  expect(processesWith(`sleep\x00${nap(4711)}`)).toBe(0);
});

test("a command without a deadline of its own has the cell's", async () => {
  const { run } = await shop({ commandTimeoutMs: 200 });
  expect(resultOf(await run(exec("sleep", "60"))).end).toEqual({ kind: "timeout", afterMs: 200 });
});

test("a command that ignores TERM is killed when its time to end is up", async () => {
  const { run } = await shop();
  const result = resultOf(
    await run({ ...sh(`trap '' TERM; sleep ${nap(4712)}; sleep ${nap(4712)}`), timeoutMs: 1_000 }),
  );
  expect(result.end).toEqual({ kind: "timeout", afterMs: 1_000 });
  expect(result.durationMs).toBeGreaterThanOrEqual(3_000);
  expect(processesWith(`sleep\x00${nap(4712)}`)).toBe(0);
});

test("a command that ends well on TERM is given the time for it", async () => {
  const { run } = await shop();
  const op = sh("trap 'sleep 0.3; echo cleaned; exit 0' TERM; echo on; sleep 60 & wait");
  const result = resultOf(await run({ ...op, timeoutMs: 1_000 }));
  expect(result).toMatchObject({ end: { kind: "timeout" }, stdout: "on\ncleaned\n" });
});

test("a daemon in a session of its own does not outlive the command that is killed", async () => {
  const { run } = await shop();
  const op = sh(
    `setsid sh -c 'setsid sleep ${nap(4713)} & sleep ${nap(4713)}' & echo on; sleep 60`,
  );
  await run({ ...op, timeoutMs: 1_000 });
  await until(() => processesWith(`sleep\x00${nap(4713)}`) === 0);
});

test("a cancelled command says what it had written", async () => {
  const { run, deltas } = await shop();
  const abort = new AbortController();
  const running = run(sh(`echo half; sleep ${nap(4714)}`), abort.signal);
  await until(() => deltas.length > 0);
  abort.abort();
  const outcome = await running;
  expect(outcome).toMatchObject({ kind: "cancelled" });
  expect(outcome.kind === "cancelled" && outcome.known).toContain("stdout so far:\nhalf\n");
  expect(processesWith(`sleep\x00${nap(4714)}`)).toBe(0);
});

test("a child that keeps the pipe open neither hangs the call nor changes its code", async () => {
  const { run } = await shop();
  const result = resultOf(await run(sh(`(sleep ${nap(4715)}; echo late) & echo done; exit 5`)));
  expect(result).toMatchObject({ end: { kind: "exit", code: 5 }, stdout: "done\n" });
  expect(result.durationMs).toBeLessThan(5_000);
  expect(processesWith(`sleep\x00${nap(4715)}`)).toBeGreaterThan(0);
});

test("a child that is left behind is not killed by what it writes later", async () => {
  const { run, root } = await shop();
  await run(sh("(while [ ! -e go ]; do sleep 0.02; done; seq 1 50000; echo $? > wrote) & exit 0"));
  await writeFile(join(root, "go"), "");
  await until(async () => (await readdir(root)).includes("wrote"));
  await until(async () => (await readFile(join(root, "wrote"), "utf8")) !== "");
  expect(await readFile(join(root, "wrote"), "utf8")).toBe("0\n");
});

test("everything that was written before the exit is there, child or no child", async () => {
  const { run } = await shop({ outputBytes: 1_000_000 });
  for (let round = 0; round < 10; round++) {
    const result = resultOf(await run(sh("sleep 30 & head -c 60000 /dev/zero | tr '\\0' x")));
    expect(result.stdout.length).toBe(60_000);
  }
});

test("50 MB of output are counted whole and kept in part", async () => {
  const { run } = await shop();
  const result = resultOf(await run(sh("head -c 50000000 /dev/zero | tr '\\0' x; echo end")));
  expect(result.stdout.length + result.stdoutCutBytes).toBe(50_000_004);
  expect(result.stdout.endsWith("xend\n")).toBe(true);
  expect((await stat(result.outputPath)).size).toBe(50_000_004);
});

test("an output file has a limit, and says where it was reached", async () => {
  const { run } = await shop({ fileBytes: 100_000, outputBytes: 1_000 });
  const result = resultOf(await run(exec("head", "-c", "500000", "/dev/zero")));
  expect(result.stdoutCutBytes).toBe(499_000);
  const kept = await readFile(result.outputPath, "latin1");
  expect(kept.length).toBeLessThan(100_100);
  expect(kept).toContain("[more than 100000 bytes: the rest was not kept]");
});

test("a command that writes more than the cell's disk may take is killed, and says so", async () => {
  const { run, root } = await shop({ diskBytes: 20_000_000 });
  const result = resultOf(await run(sh("while :; do head -c 8000000 /dev/urandom >> big; done")));
  expect(result.end).toEqual({ kind: "signal", signal: "SIGKILL" });
  expect(result.stderr).toMatch(/killed: \d+ bytes were written .* diskBytes is 20000000/);
  expect((await stat(join(root, "big"))).size).toBeGreaterThan(20_000_000);
});

test("what has no name any more is written as well, and a background command is held to it too", async () => {
  const { run } = await shop({ diskBytes: 20_000_000 });
  const unlinked = "exec 3>gone; rm gone; while :; do head -c 8000000 /dev/urandom >&3; done";
  const result = resultOf(await run(sh(unlinked)));
  expect(result.end).toEqual({ kind: "signal", signal: "SIGKILL" });
  const after = resultOf(
    await run({
      ...sh("while :; do head -c 8000000 /dev/urandom >> more; done"),
      background: true,
    }),
  );
  await until(async () => (await readFile(after.outputPath, "utf8")).includes("SIGKILL"));
});

test("what others write is not what a command wrote", async () => {
  const { run, root } = await shop({ diskBytes: 20_000_000 });
  const elsewhere = await scratch();
  const begun = run(sh("while [ ! -e go ]; do sleep 0.05; done; echo done"));
  for (let round = 0; round < 3; round++) {
    await writeFile(join(elsewhere, `other-${round}`), Buffer.alloc(30_000_000, round));
  }
  await writeFile(join(root, "go"), "");
  expect(resultOf(await begun).stdout).toBe("done\n");
});

test("a background command answers at once, and its output goes on into a file", async () => {
  const { run, root } = await shop();
  const op = sh("echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; exit 3");
  const result = resultOf(await run({ ...op, background: true }));
  expect(result.end).toEqual({ kind: "background", name: "command-1" });
  await until(async () => (await readFile(result.outputPath, "utf8")) === "one\n");
  await writeFile(join(root, "go"), "");
  await until(async () => (await readFile(result.outputPath, "utf8")).includes("exited"));
  expect(await readFile(result.outputPath, "utf8")).toBe("one\ntwo\n\n[exited with 3]\n");
});

test("a background command that cannot start says so", async () => {
  const { run } = await shop();
  expect(faultOf(await run({ ...exec("no-such"), background: true }))).toBe("not_found");
});

test("a cell whose own directory was removed by a command goes on, or says what is wrong", async () => {
  const { run, commands } = await shop({ outputBytes: 10 });
  await run(sh("seq 1 100"));
  const removed = resultOf(await run(exec("rm", "-rf", commands.directory)));
  expect(removed.end).toEqual({ kind: "exit", code: 0 });
  expect(["io", "not_found"]).toContain(faultOf(await run(sh("echo gone"))));
  expect(resultOf(await run(sh("echo back"))).stdout).toBe("back\n");
});

test("more commands than the cell allows are refused by that limit's name", async () => {
  const { run, commands } = await shop({ processCount: 1 });
  await run({ ...exec("sleep", "60"), background: true });
  const checked = commands.check(exec("true"));
  expect(checked).toMatchObject({ fault: { code: "limit" } });
  expect(!checked.ok && checked.fault.message).toContain("processCount");
});

test("the end of the cell kills background commands and daemons", async () => {
  const { run, commands } = await shop();
  await run({ ...exec("sleep", nap(4716)), background: true });
  await run(sh(`setsid -f sleep ${nap(4716)}; setsid -f setsid -f sleep ${nap(4716)}`));
  await until(() => processesWith(`sleep\x00${nap(4716)}`) === 3);
  commands.killAll();
  await until(() => processesWith(`sleep\x00${nap(4716)}`) === 0);
});

test("an outcome that holds the whole output leaves no file behind", async () => {
  const { run, commands } = await shop();
  await run(sh("echo short"));
  commands.settled(actionId(1));
  const outputs = join(commands.directory, "output");
  await until(async () => (await readdir(outputs)).length === 0);
});
