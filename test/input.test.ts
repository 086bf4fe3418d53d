import { execFileSync, spawn } from "node:child_process";
import { chmodSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { FixedStep } from "@dev/model/scripted";
import { describe, expect, test } from "vitest";
import { checkLedger, ledgerOf } from "./support/crash-task.ts";
import { DEV, type Desk, openDesk, type Ran, read, threadOf } from "./support/dev.ts";

const LIMIT_MS = 60_000;
const NOWHERE = "s_01m8pr4jzahc8dgk6zwv43qhf2";
const isRoot = process.getuid?.() === 0;

const say = (text: string, ...calls: readonly [string, unknown][]): FixedStep => ({
  reply: { text, calls: calls.map(([tool, given]) => ({ tool, arguments: given })) },
});
const write = (path: string): [string, unknown] => ["write", { path, text: `${path}\n` }];

async function onDesk(script: readonly FixedStep[], check: (desk: Desk) => Promise<void>) {
  const desk = await openDesk(script, { "a.txt": "a\n" });
  try {
    await check(desk);
    expect(desk.model.errors).toEqual([]);
  } finally {
    await desk.close();
  }
}

/** Refused before anything began: with this code, saying this, in a few lines. */
function expectRefused(ran: Ran, code: number, ...said: readonly string[]): void {
  expect(ran).toMatchObject({ code, signal: null, stdout: "" });
  expect(ran.stderr).toMatch(/^dev: /);
  expect(ran.stderr).not.toMatch(/^ {4}at |node:internal|\.mjs:\d/m);
  for (const each of said) expect(ran.stderr).toContain(each);
}

/** Runs `dev` as somebody who may not do everything. */
function asNobody(desk: Desk, args: readonly string[]): Promise<Ran> {
  if (!isRoot) return desk.run(args);
  const command = ["setpriv", "--reuid=65534", "--clear-groups", process.execPath, DEV, ...args];
  return runShell(desk, command.map((word) => `'${word}'`).join(" "));
}

async function runShell(desk: Desk, command: string, cwd = desk.project): Promise<Ran> {
  const child = spawn("sh", ["-c", command], {
    cwd,
    env: { PATH: process.env.PATH, HOME: desk.root, DEV_HOME: desk.home, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, signal: null, stdout, stderr, lines: [] };
}

const dev = (...args: readonly string[]): string =>
  [process.execPath, DEV, ...args].map((word) => `'${word}'`).join(" ");

describe.concurrent("bad input", { timeout: LIMIT_MS }, () => {
  test.each([
    [["exec"], ["exec: it needs PROMPT", "usage: dev exec "]],
    [
      ["exec", ""],
      ["the prompt is empty", "say what to do"],
    ],
    [["exec", " \n\t"], ["the prompt is empty"]],
    [["exec", "two", "words"], ['a word too many: "words" (quote the prompt)']],
    [
      ["exec", "--nope", "x"],
      ["'--nope'", "usage: dev exec "],
    ],
    [["exec", "--cell", "moon", "x"], ["--cell is one of local, bubblewrap"]],
    [["exec", "-m", "nameless", "x"], ["nameless: a model is written provider/model"]],
    [
      ["exec", "-m", "none/m", "x"],
      ['there is no provider "none"', "configured: scripted"],
    ],
    [["exec", "-C", "a.txt", "x"], ["a.txt: not a directory"]],
    [["exec", "-C", "missing", "x"], ["missing: there is no such directory"]],
    [["sing"], ['there is no command "sing"', "there are: exec, fix, resume"]],
    [
      ["help", "sing"],
      ['there is no command "sing"', "there are: exec, fix, resume"],
    ],
    [
      ["resume", NOWHERE],
      [`${NOWHERE}: there is no such session`, "`dev sessions` lists them"],
    ],
    [["resume", "../../etc/passwd"], ["../../etc/passwd: not a session id"]],
    [["ledger", "s_\u001b[2J"], ["s_␛[2J: not a session id"]],
    [
      ["diff", ""],
      ["not a session id", "`dev sessions` lists them"],
    ],
    [["apply", NOWHERE], ["there is no such session"]],
    [["sessions", "--mode", "ask"], ["sessions: it takes no --mode"]],
  ])("dev %j", (args, said) =>
    onDesk([], async (desk) => expectRefused(await desk.run(args), 2, ...said)),
  );

  test("a prompt on stdin: whole, or too large, or no text", () =>
    onDesk([say("read"), say("read")], async (desk) => {
      const text = "é".repeat(600_000);
      expect(await desk.run(["exec", "-"], { stdin: text })).toMatchObject({ code: 0 });
      expect(desk.model.requests[0]?.messages.at(-1)?.content).toBe(text);
      const large = await desk.run(["exec", "-"], { stdin: "a".repeat(5_000_000) });
      expectRefused(large, 2, "over 4,194,304 bytes", "put it into a file");
      const bad = await desk.run(["exec", "-"], { stdin: Buffer.from("caf\xe9 \xff", "latin1") });
      expectRefused(bad, 2, "not UTF-8, at byte 3");
      expectRefused(await desk.run(["exec", "-"], { stdin: "\n" }), 2, "the prompt is empty");
    }));

  test("a directory that may not be read, and a state directory that may not be written", () =>
    onDesk([], async (desk) => {
      chmodSync(desk.root, 0o755);
      chmodSync(desk.home, 0o555);
      mkdirSync(join(desk.project, "locked"), { mode: 0 });
      const locked = await asNobody(desk, ["exec", "-C", "locked", "x"]);
      expectRefused(locked, 2, "locked: the directory may not be read");
      const state = await asNobody(desk, ["exec", "x"]);
      expectRefused(state, 2, `${desk.home}: the state directory cannot be used`, "set DEV_HOME");
      chmodSync(desk.home, 0o700);
    }));

  test("a state directory that is a file, or where none can be made", () =>
    onDesk([], async (desk) => {
      for (const home of [join(desk.project, "a.txt"), "/proc/nothing"]) {
        const ran = await desk.run(["sessions"], { env: { DEV_HOME: home } });
        expectRefused(ran, 2, `${home}: the state directory cannot be used`, "set DEV_HOME");
      }
    }));

  test("without HOME the person's own directory is found all the same", () =>
    onDesk([], async (desk) => {
      const ran = await runShell(desk, `unset HOME DEV_HOME; ${dev("doctor", "--json")}`);
      const state = ran.stdout.split("\n").map((line) => line !== "" && JSON.parse(line));
      expect(state.find(({ name }) => name === "state")).toMatchObject({ state: "ok" });
    }));

  test("settings with a key that is not known", () =>
    onDesk([], async (desk) => {
      writeFileSync(join(desk.home, "config.toml"), 'modle = "a/b"\n');
      for (const args of [
        ["exec", "x"],
        ["exec", "--mode", "plan", "x"],
      ]) {
        expectRefused(await desk.run(args), 2, 'config.toml: unknown key "modle"');
      }
      const json = await desk.run(["exec", "--json", "x"]);
      expect(json).toMatchObject({ code: 2, stderr: "" });
      expect(json.lines).toMatchObject([{ type: "error", code: "config" }]);
    }));

  test("a store that is damaged, or of a newer Dev, is left as it is", () =>
    onDesk([], async (desk) => {
      const path = join(desk.home, "dev.db");
      writeFileSync(path, "no database at all\n".repeat(500));
      expectRefused(await desk.run(["exec", "x"]), 1, `${path}: `, "move the file");
      expect(read(path)).toContain("no database at all");
      rmSync(path);
      expect(await desk.run(["sessions"])).toMatchObject({ code: 0, stdout: "" });
      setVersion(path, 99);
      for (const args of [["exec", "x"], ["sessions"], ["ledger", NOWHERE]]) {
        expectRefused(await desk.run(args), 1, `${path}: the store is of version 99`, "newest Dev");
      }
    }));

  test("a session whose directory is gone goes on when it is back", () =>
    onDesk(
      [{ fault: { kind: "status", status: 400 } }, say("", write("b.txt")), say("ok")],
      async (desk) => {
        const ran = await desk.run(["exec", "--json", "x"]);
        const id = threadOf(ran);
        rmSync(desk.project, { recursive: true });
        const gone = await runShell(desk, dev("resume", id), desk.root);
        expectRefused(gone, 2, `${desk.project}: there is no such directory`, "put it back");
        mkdirSync(desk.project);
        expect(await desk.run(["resume", id])).toMatchObject({ code: 0, stdout: "ok\n" });
      },
    ));

  test("a session that is complete says what can be done with it", () =>
    onDesk([say("ok"), say("more")], async (desk) => {
      const id = threadOf(await desk.run(["exec", "--json", "x"]));
      const again = await desk.run(["resume", id]);
      expectRefused(again, 2, "the session is complete", `dev resume ${id} "…"`);
      expectRefused(await desk.run(["resume", id, " "]), 2, "the prompt is empty");
      expect(await desk.run(["resume", id, "more"])).toMatchObject({ code: 0, stdout: "more\n" });
    }));
});

describe.concurrent("a world that does not hold still", { timeout: LIMIT_MS }, () => {
  test("a reader that goes away early is no error to shout about", () =>
    onDesk(
      [say("", write("b.txt")), say("ok"), say("", write("c.txt")), say("ok")],
      async (desk) => {
        const id = threadOf(await desk.run(["exec", "--json", "x"]));
        const piped = await runShell(desk, `${dev("ledger", id)} | head -1`);
        expect(piped).toMatchObject({ code: 0, stderr: "" });
        expect(piped.stdout).toMatch(/^ +1 {2}model scripted\/test\n$/);
        // Nobody reads the progress; the work is done all the same.
        const unread = await runShell(desk, `${dev("exec", "x")} 2>&1 >out | head -1; cat out`);
        expect(unread.stdout).toMatch(/^session s_\w{26}\nok\n$/);
        expect(read(join(desk.project, "c.txt"))).toBe("c.txt\n");
      },
    ));

  test("a program that stops reading stops the run, and the session goes on", () =>
    onDesk([say("", write("b.txt")), say("ok")], async (desk) => {
      const cut = await runShell(desk, `${dev("exec", "--json", "x")} | head -1`);
      expect(cut).toMatchObject({ code: 0, stderr: "" });
      const id: string = JSON.parse(cut.stdout).thread_id;
      expect(await desk.run(["resume", id])).toMatchObject({ code: 0, stdout: "ok\n" });
      checkLedger(await ledgerOf(desk, id));
      expect(read(join(desk.project, "b.txt"))).toBe("b.txt\n");
    }));

  test("two at once on one home do not meet, and one session has one driver", () =>
    onDesk(
      [
        { ...say("", write("b.txt")), gate: "both" },
        { ...say("", write("b.txt")), gate: "both" },
        say("ok"),
        say("ok"),
      ],
      async (desk) => {
        const both = [desk.start(["exec", "one"]), desk.start(["exec", "two"])];
        await desk.model.request(2);
        const listed = await desk.run(["sessions", "--json"]);
        expect(listed.lines.map(({ state }) => state)).toEqual(["active", "active"]);
        const second = await desk.run(["resume", listed.lines[0].id]);
        expectRefused(second, 1, "another process has driven this session since");
        desk.model.release("both");
        for (const { ended } of both)
          expect(await ended).toMatchObject({ code: 0, stdout: "ok\n" });
        for (const { id } of listed.lines) checkLedger(await ledgerOf(desk, id));
      },
    ));

  test("a disk that is full stops a session without losing what it had", async (context) => {
    context.skip(!isRoot, "only root can mount a small disk");
    let fill = (): void => {};
    const script = [
      say("", write("b.txt")),
      () => {
        fill();
        return say("", write("c.txt"));
      },
      say("", write("c.txt")),
      say("ok"),
    ];
    const desk = await openDesk(script, {});
    const settings = read(join(desk.home, "config.toml"));
    const mounted = mount(desk.home);
    context.skip(!mounted, "this machine lets nobody mount");
    try {
      writeFileSync(join(desk.home, "config.toml"), settings);
      const filler = join(desk.home, "filler");
      fill = () => fillUp(filler);
      const ran = await desk.run(["exec", "x"]);
      expect(ran).toMatchObject({ code: 1, stdout: "" });
      expect(ran.stderr).toMatch(/^dev: .*(full|I\/O)/m);
      expect(ran.stderr).not.toMatch(/^ {4}at /m);
      rmSync(filler);
      const id = /s_\w{26}/.exec(ran.stderr)?.[0] ?? "";
      expect(await desk.run(["resume", id])).toMatchObject({ code: 0, stdout: "ok\n" });
      checkLedger(await ledgerOf(desk, id));
      expect(read(join(desk.project, "c.txt"))).toBe("c.txt\n");
    } finally {
      execFileSync("sh", ["-c", `umount -l '${desk.home}'`]);
      await desk.close();
    }
  });
});

function mount(path: string): boolean {
  try {
    execFileSync("sh", ["-c", `mount -t tmpfs -o size=4m,mode=700 tmpfs '${path}'`]);
    return true;
  } catch {
    return false;
  }
}

/** Writes until there is no room, to the last byte. */
function fillUp(path: string): void {
  try {
    execFileSync("sh", ["-c", `cat /dev/zero > '${path}'`], { stdio: "ignore" });
  } catch {
    expect(statSync(path).size).toBeGreaterThan(0);
  }
}

function setVersion(path: string, version: number): void {
  const Libsql = createRequire(join(DEV, "../../../store/package.json"))("libsql");
  const database = new Libsql(path);
  database.exec(`pragma user_version = ${version}`);
  database.close();
}
