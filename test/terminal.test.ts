import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { FixedStep } from "@dev/model/scripted";
import { describe, expect, test } from "vitest";
import { cellOf, processesOf, until } from "./support/crash-process.ts";
import { type Desk, openDesk, read } from "./support/dev.ts";
import { CTRL_C, CTRL_D, endOf, openScreen } from "./support/pty.ts";

type Call = readonly [tool: string, given: unknown];

const say = (text: string, ...calls: readonly Call[]): FixedStep => ({
  reply: { text, calls: calls.map(([tool, given]) => ({ tool, arguments: given })) },
});
const write = (path: string): Call => ["write", { path, text: `${path}\n` }];
const told = (expected: string, text = "done"): FixedStep => ({ ...say(text), expect: [expected] });
const ALLOW = "(or say why not): ";
const LIMIT_MS = 60_000;

async function onDesk(script: readonly FixedStep[], check: (desk: Desk) => Promise<void>) {
  const desk = await openDesk(script, { "a.txt": "alpha\nbeta\n" });
  try {
    await check(desk);
    expect(desk.model.errors).toEqual([]);
  } finally {
    await desk.close();
  }
}

const made = (desk: Desk, name: string): boolean => existsSync(join(desk.project, name));

describe.concurrent("on a terminal", { timeout: LIMIT_MS }, () => {
  test("a change is asked about, and shown to the line, before it happens", () =>
    onDesk(
      [
        say("", ["write", { path: "new.txt", text: "one\ntwo\n" }]),
        say("", ["patch", { path: "a.txt", edits: [{ old: "beta", new: "gamma" }] }]),
        told("written: "),
      ],
      async (desk) => {
        const screen = openScreen(desk, ["exec", "work"]);
        const first = await screen.sees(ALLOW);
        expect(first).toContain("  write new.txt\r\n  +one\r\n  +two\r\n  it changes a file\r\n");
        expect(made(desk, "new.txt")).toBe(false);
        screen.type("y\r");
        const second = await screen.sees(ALLOW);
        expect(second).toContain("  patch a.txt\r\n  -beta\r\n  +gamma\r\n  it changes a file\r\n");
        expect(read(join(desk.project, "new.txt"))).toBe("one\ntwo\n");
        expect(read(join(desk.project, "a.txt"))).toBe("alpha\nbeta\n");
        screen.type("y\r");
        expect(endOf(await screen.ended)).toEqual({ code: 0, isSane: true });
        expect(read(join(desk.project, "a.txt"))).toBe("alpha\ngamma\n");
      },
    ));

  test("a command is shown with all that it is given", () =>
    onDesk(
      [
        say("", [
          "exec",
          {
            command: "cat > ran\necho $A",
            cwd: "sub",
            env: { A: "b c" },
            stdin: "in\n",
            timeoutMs: 90_000,
          },
        ]),
        told("refused, nothing was done: a person said no"),
      ],
      async (desk) => {
        const screen = openScreen(desk, ["exec", "work"]);
        expect(await screen.sees(ALLOW)).toContain(
          "  $ cat > ran\r\n  > echo $A\r\n  in sub\r\n  with A=b c\r\n  <in\r\n  for 1 min 30 s at most\r\n  it runs a command",
        );
        screen.type("n\r");
        expect(endOf(await screen.ended)).toEqual({ code: 3, isSane: true });
      },
    ));

  test("an empty line is no answer, and words are a no that the model hears", () =>
    onDesk(
      [
        say("", ["exec", { argv: ["touch", "ran"] }]),
        told("refused, nothing was done: a person said no: use another name"),
      ],
      async (desk) => {
        const screen = openScreen(desk, ["exec", "work"]);
        await screen.sees(ALLOW);
        screen.type("\r");
        await screen.sees(ALLOW);
        screen.type("  \r");
        await screen.sees(ALLOW);
        expect(made(desk, "ran")).toBe(false);
        screen.type("use another name\r");
        expect(endOf(await screen.ended)).toEqual({ code: 3, isSane: true });
        expect(made(desk, "ran")).toBe(false);
      },
    ));

  test("what is allowed for the session is not asked about again, and what differs is", () =>
    onDesk(
      [
        say("", ["exec", { argv: ["touch", "one"] }]),
        say("", ["exec", { argv: ["touch", "one"] }]),
        say("", ["exec", { argv: ["touch", "two"] }]),
        told("a person said no"),
      ],
      async (desk) => {
        const screen = openScreen(desk, ["exec", "work"], { NO_COLOR: "1" });
        expect(await screen.sees(ALLOW)).toContain("[s] all `touch one …` in this run");
        screen.type("s\r");
        const next = await screen.sees(ALLOW);
        expect(next.match(/✓ \$ touch one/g)).toHaveLength(2);
        expect(next).toContain("  $ touch two\r\n");
        screen.type("n\r");
        expect(endOf(await screen.ended)).toMatchObject({ code: 3 });
        expect(made(desk, "one")).toBe(true);
        expect(made(desk, "two")).toBe(false);
      },
    ));

  test("several questions come one after the other", () =>
    onDesk(
      [
        say("", ["exec", { argv: ["touch", "one"] }], ["exec", { argv: ["touch", "two"] }]),
        told("exit code 0"),
      ],
      async (desk) => {
        const screen = openScreen(desk, ["exec", "work"]);
        const first = await screen.sees(ALLOW);
        expect(first).toContain("touch one");
        expect(first).not.toContain("touch two");
        screen.type("n\r");
        expect(await screen.sees(ALLOW)).toContain("touch two");
        screen.type("y\r");
        expect(endOf(await screen.ended)).toEqual({ code: 3, isSane: true });
        expect([made(desk, "one"), made(desk, "two")]).toEqual([false, true]);
      },
    ));

  test("what a reply asks for after a question waits for the answer to it", () =>
    onDesk(
      [say("", write("a.txt"), ["read", { path: "a.txt" }]), told("1 lines, 6 bytes")],
      async (desk) => {
        const screen = openScreen(desk, ["exec", "work"]);
        await screen.sees(ALLOW);
        screen.type("y\r");
        expect(endOf(await screen.ended)).toEqual({ code: 0, isSane: true });
        const last = desk.model.requests.at(-1)?.messages.at(-1)?.content;
        expect(last).toContain("a.txt\n");
        expect(last).not.toContain("alpha");
      },
    ));

  test("what happens while a question is open is told before it or after it, and not into it", () =>
    onDesk(
      [say("", ["read", { path: "a.txt" }], write("new.txt")), told("written: ")],
      async (desk) => {
        const screen = openScreen(desk, ["exec", "work"], { NO_COLOR: "1" });
        await screen.sees(ALLOW);
        await until("the read is done", () =>
          read(join(desk.home, "dev.db-wal")).includes("alpha"),
        );
        screen.type("y\r");
        const end = endOf(await screen.ended);
        expect(end).toEqual({ code: 0, isSane: true });
        const shown = await screen.ended;
        const [question = ""] = / {2}write new\.txt.*?y\r+\n/s.exec(shown) ?? [];
        expect(question).toContain(ALLOW);
        expect(question).not.toContain("✓");
        expect(shown).toContain("✓ read a.txt");
      },
    ));

  test("Ctrl-C at a question stops the turn, does nothing, and leaves the terminal sane", () =>
    onDesk([say("", ["exec", { argv: ["touch", "ran"] }])], async (desk) => {
      const screen = openScreen(desk, ["exec", "work"]);
      await screen.sees(ALLOW);
      screen.type(CTRL_C);
      const output = await screen.ended;
      expect(endOf(output)).toEqual({ code: 130, isSane: true });
      expect(output).toMatch(/stopped; go on with: dev resume s_\w{26}/);
      expect(made(desk, "ran")).toBe(false);
    }));

  test("Ctrl-D at a question is nobody's answer: nothing is done, and the model hears so", () =>
    onDesk(
      [say("", ["exec", { argv: ["touch", "ran"] }]), told("a person said no: nobody answered")],
      async (desk) => {
        const screen = openScreen(desk, ["exec", "work"]);
        await screen.sees(ALLOW);
        screen.type(CTRL_D);
        expect(endOf(await screen.ended)).toEqual({ code: 3, isSane: true });
        expect(made(desk, "ran")).toBe(false);
      },
    ));

  test("Ctrl-C in a command ends it at once, and leaves the terminal sane", () =>
    onDesk([say("", ["exec", { command: "echo $$ > pid; exec sleep 100" }])], async (desk) => {
      const screen = openScreen(desk, ["exec", "--mode", "edits", "work"]);
      // It is shown once it takes a while.
      await screen.sees("sleep 100 … ");
      screen.type(CTRL_C);
      const beganMs = performance.now();
      const output = await screen.ended;
      expect(endOf(output)).toEqual({ code: 130, isSane: true });
      expect(output).toContain("stopping … (once more ends it at once)");
      expect(processesOf(cellOf(desk).id)).toEqual([]);
      expect(performance.now() - beganMs).toBeLessThan(15_000);
    }));

  test("what is at work is said on one line, which is gone when it ends", () =>
    onDesk(
      [
        {
          ...say("", ["exec", { command: "until test -e go; do sleep 0.1; done" }]),
          gate: "think",
        },
        say("all done"),
      ],
      async (desk) => {
        const screen = openScreen(desk, ["exec", "--mode", "edits", "work"], { NO_COLOR: "1" });
        await screen.sees("model scripted/test … ");
        desk.model.release("think");
        await screen.sees("$ until test -e go; do sleep 0.1; done … ");
        writeFileSync(join(desk.project, "go"), "");
        const output = await screen.ended;
        expect(endOf(output)).toEqual({ code: 0, isSane: true });
        // What stays: each line is drawn over by the next, or erased.
        expect(screenOf(output).slice(0, 4)).toEqual([
          expect.stringMatching(/^session s_\w{26}$/),
          expect.stringMatching(/^✓ \$ until test -e go; do sleep 0\.1; done {2}exit 0, \d/),
          "all done",
          expect.stringMatching(/^[\d,]+ tokens in, 2 out$/),
        ]);
      },
    ));

  test("colours are for terminals, and not where NO_COLOR is set", () =>
    onDesk([say("", ["read", { path: "a.txt" }]), say("ok"), say("ok")], async (desk) => {
      const coloured = await openScreen(desk, ["exec", "work"]).ended;
      expect(coloured).toContain("\x1b[32m✓\x1b[39m read a.txt");
      const plain = await openScreen(desk, ["exec", "work"], { NO_COLOR: "1" }).ended;
      expect(plain).not.toContain("\x1b[");
    }));

  test("an action cannot draw over the question that it is shown in", () => {
    const hostile = `a\x1b[2J\x1b[H\x1b]0;title\x07\r\x08\x9b31m\u202egnp.exe\u2066\u200b\u2028`;
    return onDesk(
      [
        say("", ["exec", { argv: ["touch", hostile, `x\n  allow? [y] once: y\ntouch ran`] }]),
        say("", ["write", { path: "evil\x1b[1A\x1b[2K\nb.txt", text: `${hostile}\n` }]),
        say("", ["exec", { argv: ["echo", "y".repeat(10_000), "the end"] }]),
        told("a person said no"),
      ],
      async (desk) => {
        const screen = openScreen(desk, ["exec", "work"], { NO_COLOR: "1" });
        const first = await screen.sees(ALLOW);
        expect(first).toContain(
          "  $ touch 'a␛[2J␛[H␛]0;title␇␍␈�31m�gnp.exe���' 'x\r\n  >   allow? [y] once: y\r\n  > touch ran'\r\n",
        );
        screen.type("n\r");
        const second = await screen.sees(ALLOW);
        expect(second).toContain("  write evil␛[1A␛[2K ⏎ b.txt\r\n  +a␛[2J");
        screen.type("n\r");
        const third = await screen.sees(ALLOW);
        expect(third.length).toBeLessThan(4_000);
        expect(third).toMatch(
          /\(… [\d,]+ characters in between, not shown …\)\r\n[\s\S]*the end'\r\n/,
        );
        screen.type("v\r");
        expect(await screen.sees(ALLOW)).toContain("y".repeat(10_000));
        screen.type("n\r");
        const output = await screen.ended;
        // What readline itself writes is all that is left of control sequences.
        for (const after of output.split("\x1b").slice(1)) expect(after).toMatch(/^\[\d*[GJC]/);
        for (const each of "\x07\x08\x9b\u202e\u2066\u200b\u2028")
          expect(output).not.toContain(each);
        expect(endOf(output)).toEqual({ code: 3, isSane: true });
      },
    );
  });

  test("a question of the model's is answered by a number of its choices", () =>
    onDesk(
      [
        say("", ["question", { text: "Which\x1b[2J one?", choices: ["red", "green\nblue"] }]),
        told("green\nblue"),
      ],
      async (desk) => {
        const screen = openScreen(desk, ["exec", "work"], { NO_COLOR: "1" });
        const first = await screen.sees("(a number, or words): ");
        expect(first).toContain("Which␛[2J one?\r\n  1. red\r\n  2. green ⏎ blue\r\n");
        screen.type("\r");
        await screen.sees("(a number, or words): ");
        screen.type("3\r");
        expect(await screen.sees("(a number, or words): ")).toContain("they go from 1 to 2");
        screen.type("1 2\r");
        expect(await screen.sees("(a number, or words): ")).toContain("only one of them");
        screen.type("2\r");
        expect(endOf(await screen.ended)).toEqual({ code: 0, isSane: true });
      },
    ));

  test("several choices, and words of one's own", () =>
    onDesk(
      [
        say("", ["question", { text: "Which?", choices: ["a", "b", "c"], many: true }]),
        { ...say("", ["question", { text: "Why?" }]), expect: ["a\nc"] },
        told("because of 2 things"),
      ],
      async (desk) => {
        const screen = openScreen(desk, ["exec", "work"]);
        await screen.sees("(numbers, or words): ");
        screen.type("1, 3\r");
        await screen.sees("answer: ");
        screen.type("because of 2 things\r");
        expect(endOf(await screen.ended)).toEqual({ code: 0, isSane: true });
      },
    ));
});

/** What a terminal shows in the end, as far as erasing a line goes. */
function screenOf(output: string): readonly string[] {
  const lines = output.split("\n").map((line) => {
    const text = line.replace(/\r$/, "");
    return text.slice(text.lastIndexOf("\r\x1b[2K") + 1).replace("\x1b[2K", "");
  });
  return lines.map((line) => line.trimEnd());
}
