import { cpSync, existsSync, readFileSync, readlinkSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Script, ScriptedRequest } from "@dev/model/scripted";
import { expect, test } from "vitest";
import { checkConversations, checkLedger, ledgerOf } from "./support/crash-task.ts";
import { type Desk, openDesk, threadOf } from "./support/dev.ts";
import { bytesOf, git, makeRepository, REPOSITORY } from "./support/repository.ts";

/** A call as the model makes it, and what it is to be told of it. */
type Step = {
  readonly tool: string;
  readonly given: unknown;
  readonly told: RegExp;
};

const call = (tool: string, given: unknown, told: RegExp): Step => ({ tool, given, told });
const sh = (command: string, told: RegExp, more: object = {}): Step =>
  call("exec", { command, ...more }, told);
const edit = (path: string, old: string, fresh: string, told: RegExp): Step =>
  call("patch", { path, edits: [{ old, new: fresh }] }, told);

const WRITTEN = /^written: \+1 -1 lines, now \d+ bytes, sha256 [0-9a-f]{64}$/;
const SHA = "[0-9a-f]{64}";
const exactly = (text: string): RegExp =>
  new RegExp(`^${text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("SHA", SHA)}$`);
const OUTPUT_BYTES = 50 * 1024 * 1024;

/** The work, a reply a list. What a reply needs of what it was told before, it looks up. */
const WORK: readonly (readonly Step[])[] = [
  [
    call("search", { pattern: "total - each" }, /^src\/sum\.js:3:\treturn list\.reduce/),
    call("search", { pattern: "\\.txt$", match: "name", path: "text" }, /^text\/\S+\.txt(\n|$)/),
    call(
      "read",
      { path: "src/sum.js" },
      /^4 lines, 101 bytes, sha256 [\s\S]*\n\treturn list\.reduce/,
    ),
    call("search", { pattern: "not in any of them" }, /^no matches$/),
  ],
  [
    call(
      "exec",
      { argv: ["node", "--test"] },
      /^exit code 1 after \d+ ms\nstdout:\n[\s\S]*-6 !== 6/,
    ),
  ],
  [
    call("plan", { items: [{ text: "mend sum", status: "active" }] }, /^\[>\] mend sum$/),
    edit(
      "src/sum.js",
      "\treturn list.reduce((total, each) => total - each, 0);",
      "\treturn list.reduce((total, each) => total + each, 0);",
      WRITTEN,
    ),
  ],
  [call("exec", { argv: ["node", "--test"] }, /^exit code 0 after \d+ ms\nstdout:\n[\s\S]*pass 1/)],
  [
    call(
      "read",
      { path: "text/windows.txt" },
      exactly("3 lines, 17 bytes, sha256 SHA\none\r\ntwo\r\nthree\r\n"),
    ),
    call(
      "read",
      { path: "text/windows.txt", from: 2, to: 2 },
      exactly("3 lines, 17 bytes, sha256 SHA\ntwo\r\n"),
    ),
    call(
      "read",
      { path: "text/latin1.txt" },
      /^2 lines, 17 bytes, sha256 \w+; bytes that are not UTF-8 are shown as U\+FFFD\ncaf\ufffd au lait\n/,
    ),
    call(
      "read",
      { path: "text/open-end.txt" },
      exactly("2 lines, 17 bytes, sha256 SHA\nfirst\nno line end"),
    ),
    call("read", { path: "missing.txt" }, /^failed: missing\.txt: /),
  ],
  [
    edit("text/windows.txt", "one\ntwo\n", "eins\nzwei\n", /^written: \+2 -2 lines, now 19 bytes/),
    edit("text/mixed.txt", "windows", "WINDOWS", WRITTEN),
    call(
      "patch",
      {
        path: "text/tabs.mk",
        diff: "@@ -2,3 +2,3 @@\n \tcc -o a a.c\n \n-\tstrip a\t# keep\n+\tstrip -s a\t# keep\n",
      },
      WRITTEN,
    ),
    edit("text/bom.csv", "nut;1", "nut;2", WRITTEN),
    edit("text/open-end.txt", "no line end", "still no line end", WRITTEN),
    edit("text/latin1.txt", "au lait", "noir", WRITTEN),
    edit("text/nbsp.txt", "a b", "a c", WRITTEN),
    edit("bin/run.sh", "echo one", "echo two", WRITTEN),
  ],
  [
    edit(
      "src/sum.js",
      "not there",
      "x",
      /^failed: src\/sum\.js: edit 1: its old text does not stand there/,
    ),
    edit(
      "text/windows.txt",
      "e",
      "x",
      /^failed: text\/windows\.txt: edit 1: its old text stands there \d times/,
    ),
    call(
      "write",
      { path: "package.json", text: "x", expect: "absent" },
      /^failed: package\.json: there is a file of 54 bytes/,
    ),
    call(
      "write",
      { path: "package.json", text: "x", expect: "0".repeat(64) },
      /^failed: package\.json: it was to be 0{64}, and is /,
    ),
    call(
      "write",
      { path: "../outside.txt", text: "x" },
      /^failed, nothing was done: path: it leaves the workspace$/,
    ),
    call("read", { path: "/etc/passwd" }, /^failed, nothing was done: path: it is absolute/),
    call(
      "frobnicate",
      { path: "a" },
      /^failed, nothing was done: frobnicate: there is no tool named "frobnicate"/,
    ),
    call(
      "patch",
      '{"path": "src/sum.js", "edits": [{"old": "su',
      /^failed, nothing was done: patch: arguments: .* not JSON/,
    ),
  ],
  [
    sh(
      "echo out; echo err >&2; exit 3",
      /^exit code 3 after \d+ ms\nstdout:\nout\n\nstderr:\nerr\n$/,
    ),
    call(
      "exec",
      { argv: ["no-such-program"] },
      /^failed: no-such-program: no program of this name is in PATH/,
    ),
    sh("kill -9 $$", /^killed by SIGKILL after \d+ ms$/),
    sh("sleep 60", /^it reached its deadline of 300 ms and was killed$/, { timeoutMs: 300 }),
  ],
  [
    sh(
      `yes 0123456 | head -c ${OUTPUT_BYTES}`,
      /^exit code 0 after \d+ ms\nstdout:\n0123456\n[\s\S]*\n\(52396\d{3} bytes of stdout and 0 of stderr were cut from the middle; the whole output is in \S+\)$/,
    ),
  ],
  [sh("wc -c < WHOLE_OUTPUT", /^exit code 0 after \d+ ms\nstdout:\n52428800\n$/)],
  [
    // A child that keeps the pipe open, and outlives its shell.
    sh("sleep 300 & echo started", /^exit code 0 after \d+ ms\nstdout:\nstarted\n$/),
    sh("setsid sleep 300 & echo daemon", /^exit code 0 after \d+ ms\nstdout:\ndaemon\n$/),
    sh(
      "while :; do date >> cache/ticks; sleep 0.05; done",
      /^running in the background as command-\d+; its output goes to \S+$/,
      { background: true },
    ),
  ],
  [
    sh("until test -s cache/ticks; do sleep 0.05; done; echo ticked", /stdout:\nticked\n$/),
    sh(
      "cat; echo $GREETING; pwd | sed 's,.*/,,'",
      /^exit code 0 after \d+ ms\nstdout:\nline in\nhello\ntext\n$/,
      { stdin: "line in\n", env: { GREETING: "hello" }, cwd: "text" },
    ),
    call("exec", { argv: ["printf", "%s|", "a b", "$HOME", "*"] }, /stdout:\na b\|\$HOME\|\*\|$/),
    sh("mv text/nbsp.txt text/moved.txt && rm blob.bin && chmod -x bin/run.sh", /^exit code 0/),
  ],
  [
    call(
      "write",
      { path: "new/deep/file.md", text: "# new\n" },
      exactly("written: +1 -0 lines, now 6 bytes, sha256 SHA"),
    ),
    call(
      "write",
      { path: "text/windows.txt", text: "a\nb\n" },
      /^written: \+2 -3 lines, now 6 bytes/,
    ),
    call("write", { path: "text/link.txt", text: "through\n" }, /./),
    call("question", { text: "Which one?", choices: ["a", "b"] }, /nobody is there to answer/),
    call(
      "git",
      { argv: ["status", "--porcelain"] },
      /^exit code 0 [\s\S]*stdout:\n M bin\/run\.sh\n D blob\.bin\n M src\/sum\.js\n/,
    ),
    call("git", { argv: ["log", "--oneline"] }, /^exit code 0 [\s\S]* begin\n$/),
  ],
  [call("exec", { argv: ["node", "--test"] }, /^exit code 0 [\s\S]*pass 1/)],
];

const CALLS = WORK.flat();

/** What the files hold afterwards, where it is not what they held before; null where there is none. */
const AFTER: Readonly<Record<string, string | null>> = {
  "src/sum.js": (REPOSITORY["src/sum.js"] ?? "").replace("total - each", "total + each"),
  "text/windows.txt": "a\r\nb\r\n",
  "text/mixed.txt": "unix\nWINDOWS\r\nlast\n",
  "text/tabs.mk": "all:\n\tcc -o a a.c\n\n\tstrip -s a\t# keep\n",
  "text/bom.csv": "\xef\xbb\xbfname;price\nnut;2\n",
  "text/open-end.txt": "through\n",
  "text/latin1.txt": "caf\xe9 noir\nth\xe9\n",
  "text/nbsp.txt": null,
  "text/moved.txt": "a\xc2\xa0b\na c\n",
  "bin/run.sh": "#!/bin/sh\necho two\n",
  "blob.bin": null,
  "new/deep/file.md": "# new\n",
};

/** The most memory that the process may ever have held. */
const MEMORY_LIMIT_KIB = 250 * 1024;
const TIME_LIMIT_MS = 90_000;

type Seen = { peakKib: number; pid: number };

/** The script of the work; its last step looks at what `dev` itself has come to use. */
function script(seen: Seen): Script {
  const steps = WORK.map((reply) => (request: ScriptedRequest) => {
    const whole = /the whole output is in (\S+)\)/.exec(request.messages.at(-1)?.content ?? "");
    const calls = reply.map(({ tool, given }) => ({
      tool,
      arguments: JSON.parse(JSON.stringify(given).replace("WHOLE_OUTPUT", whole?.[1] ?? "")),
    }));
    return { reply: { calls } };
  });
  const last = () => {
    const status = readFileSync(`/proc/${seen.pid}/status`, "utf8");
    seen.peakKib = Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]);
    return { reply: { text: "All of it is done." } };
  };
  return [...steps, last];
}

function toldOf(request: ScriptedRequest | undefined): readonly string[] {
  const told = request?.messages.filter(({ role }) => role === "tool") ?? [];
  return told.map(({ content }) => content);
}

function checkFiles(root: string, except: typeof AFTER = {}): void {
  for (const [path, bytes] of Object.entries({ ...REPOSITORY, ...AFTER, ...except })) {
    if (bytes === null) expect(existsSync(join(root, path)), path).toBe(false);
    else expect(bytesOf(join(root, path)), path).toBe(bytes);
  }
  expect(readlinkSync(join(root, "text/link.txt"))).toBe("open-end.txt");
  expect(statSync(join(root, "bin/run.sh")).mode & 0o111).toBe(0);
}

/** Does the work, and checks all but the files: the transcript, the ledger, memory, time. */
async function work(desk: Desk, seen: Seen, args: readonly string[]): Promise<string> {
  const beganMs = performance.now();
  const started = desk.start(["exec", "--json", "--mode", "edits", ...args, "do the work"]);
  seen.pid = started.child.pid ?? 0;
  const ran = await started.ended;
  const tookMs = performance.now() - beganMs;
  expect(desk.model.errors).toEqual([]);
  expect(ran.stderr).toBe("");
  expect(ran.lines.at(-1)).toMatchObject({ type: "turn.completed" });
  expect(ran.code).toBe(0);
  const told = toldOf(desk.model.requests.at(-1));
  expect(told).toHaveLength(CALLS.length);
  for (const [at, step] of CALLS.entries()) {
    expect.soft(told[at], JSON.stringify(step.given)).toMatch(step.told);
  }
  checkConversations(desk.model.requests);
  for (const { body } of desk.model.requests) {
    expect(JSON.parse(body).tools).toEqual(JSON.parse(desk.model.requests[0]?.body ?? "").tools);
  }
  const id = threadOf(ran);
  checkLedger(await ledgerOf(desk, id));
  expect(seen.peakKib).toBeGreaterThan(0);
  expect(seen.peakKib).toBeLessThan(MEMORY_LIMIT_KIB);
  expect(tookMs).toBeLessThan(TIME_LIMIT_MS);
  return id;
}

/** What git makes of a diff, in a copy of what it is for: all but what is no UTF-8. */
function checkDiff(diff: string, copy: string): void {
  const binary = diff.split("\n").filter((line) => line.startsWith("Binary"));
  expect(binary).toEqual([
    "Binary files a/blob.bin and /dev/null differ",
    "Binary files a/text/latin1.txt and b/text/latin1.txt differ",
  ]);
  const patch = join(copy, "..", "work.diff");
  writeFileSync(patch, diff);
  git(copy, "apply", "--whitespace=nowarn", patch);
  checkFiles(copy, {
    "blob.bin": REPOSITORY["blob.bin"] ?? null,
    "text/latin1.txt": REPOSITORY["text/latin1.txt"] ?? null,
  });
}

async function withRepository(check: (desk: Desk, seen: Seen) => Promise<void>): Promise<void> {
  const seen: Seen = { peakKib: 0, pid: 0 };
  const desk = await openDesk(script(seen));
  try {
    makeRepository(desk.project);
    await check(desk, seen);
  } finally {
    await desk.close();
  }
}

test(
  "a session of over 40 calls in one's own directory gives the right files and the right transcript",
  { timeout: 2 * TIME_LIMIT_MS },
  () =>
    withRepository(async (desk, seen) => {
      expect(CALLS.length).toBeGreaterThan(40);
      await work(desk, seen, ["--cell", "local"]);
      checkFiles(desk.project);
    }),
);

test(
  "the same in a cell of its own leaves the directory as it was, until its changes are applied",
  { timeout: 2 * TIME_LIMIT_MS },
  () =>
    withRepository(async (desk, seen) => {
      const before = join(desk.root, "before");
      cpSync(desk.project, before, { recursive: true, verbatimSymlinks: true });
      const id = await work(desk, seen, ["--cell", "bubblewrap"]);
      expect(git(desk.project, "status", "--porcelain")).toBe("");
      expect(bytesOf(join(desk.project, "cache/kept.txt"))).toBe(REPOSITORY["cache/kept.txt"]);
      const diff = await desk.run(["diff", id]);
      expect(diff).toMatchObject({ code: 0, stderr: "dev: not shown: 1 change inside .git\n" });
      checkDiff(diff.stdout, before);
      const applied = await desk.run(["apply", id]);
      expect(applied).toMatchObject({ code: 0 });
      expect(applied.stderr).toMatch(/^1[0-9] files applied, and 1 file inside \.git\n$/);
      checkFiles(desk.project);
    }),
);
