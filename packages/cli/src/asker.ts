import { type Action, type ExecOp, isEffect, type QuestionOp } from "@dev/protocol";
import type { Answer, Asker, Permit } from "@dev/session";
import type { Activity } from "./activity.ts";
import { countText, timeText } from "./figure.ts";
import { headline } from "./headline.ts";
import { shellText } from "./item.ts";
import type { Labels } from "./label.ts";
import { fitted, onOneLine, printable } from "./say.ts";

/** The terminal that questions are asked on. */
export type Desk = {
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
  /** Out of the way while a question is open. */
  readonly activity: Activity;
  readonly labels: Labels;
};

/** Asks on the terminal, one question at a time; what it shows is the action itself. */
export function terminalAsker(desk: Desk): Asker {
  let turn: Promise<unknown> = Promise.resolve();
  /** The next question waits for the answer to the one before it. */
  const inTurn = <T>(ask: () => Promise<T>): Promise<T> => {
    const asked = turn.then(ask, ask);
    turn = asked.catch(() => {});
    return asked;
  };
  const ask = <T>(put: (page: Page) => Promise<T>, signal: AbortSignal): Promise<T> =>
    inTurn(async () => {
      desk.activity.hide();
      try {
        return await put({
          write: (text) => desk.output.write(text),
          read: (prompt) => readLine(desk, prompt, signal),
        });
      } finally {
        desk.activity.show();
      }
    });
  return {
    permit: (action, reason, signal) => {
      const whose = desk.labels.of(action.agent);
      return ask((page) => permit(action, `${whose}${reason}`, page), signal);
    },
    answer: ({ id, agent, op }, signal) => {
      if (op.kind !== "question") throw new Error(`action ${id} is no question`);
      const whose = desk.labels.of(agent);
      return ask((page) => answer({ ...op, text: `${whose}${op.text}` }, page), signal);
    },
  };
}

type Page = {
  readonly write: (text: string) => void;
  /** A line that a person wrote. Null: they are gone, or need not answer any more. */
  readonly read: (prompt: string) => Promise<string | null>;
};

async function readLine(desk: Desk, prompt: string, signal: AbortSignal): Promise<string | null> {
  if (signal.aborted) return null;
  // Loaded when it is first needed: most runs ask nothing.
  const { createInterface } = await import("node:readline");
  if (signal.aborted) return null;
  const lines = createInterface({ input: desk.input, output: desk.output });
  // In raw mode the terminal hands Ctrl-C over as a key: it means what it does elsewhere.
  lines.on("SIGINT", () => process.emit("SIGINT"));
  const said = await new Promise<string | null>((resolve) => {
    const gone = (): void => resolve(null);
    signal.addEventListener("abort", gone, { once: true });
    lines.once("close", gone);
    lines.question(prompt, (line) => {
      signal.removeEventListener("abort", gone);
      resolve(line);
    });
  });
  lines.close();
  // Whatever comes next begins on a line of its own.
  if (said === null) desk.output.write("\n");
  return said;
}

async function permit(action: Action, reason: string, page: Page): Promise<Permit> {
  const { text, isCut } = shownAction(action);
  page.write(`\n${text}  ${onOneLine(reason)}\n`);
  const whole = isCut ? "  [v] view all of it" : "";
  const session = await sessionChoice(action);
  for (;;) {
    const said = await page.read(
      `  allow? [y] once  [s] ${session}  [n] no${whole}  (or say why not): `,
    );
    if (said === null) return { kind: "no", message: "nobody answered" };
    const word = said.trim();
    if (word === "y" || word === "yes") return { kind: "once" };
    if (word === "s") return { kind: "session" };
    if (word === "n" || word === "no") return { kind: "no", message: "" };
    if (word === "v" && isCut) page.write(`\n${wholeAction(action)}`);
    // An empty line is no answer: a person who leans on the return key permits nothing.
    else if (word !== "") return { kind: "no", message: word };
  }
}

/** How many characters of a command are shown again. */
const SHORT = 40;

/** What `s` permits, in words. */
async function sessionChoice({ op }: Action): Promise<string> {
  const { likeness } = await import("@dev/session");
  const alike = isEffect(op) ? likeness(op) : null;
  switch (alike?.kind) {
    case "files":
      return "every file change in this run";
    case "command": {
      const words = fitted(onOneLine(shellText(alike.argv)), SHORT);
      return alike.whole ? "this very command, in this run" : `all \`${words} …\` in this run`;
    }
    default:
      return "the same again, in this run";
  }
}

/** How much of an action is shown before a person asks for all of it. */
const LINE_LIMIT = 40;
const CHARACTER_LIMIT = 3_000;

/** The action as a person is asked about it: its beginning and its end, where it is long. */
function shownAction(action: Action): { readonly text: string; readonly isCut: boolean } {
  const whole = wholeAction(action);
  const lines = whole.split("\n");
  if (lines.length <= LINE_LIMIT && whole.length <= CHARACTER_LIMIT) {
    return { text: whole, isCut: false };
  }
  const half = CHARACTER_LIMIT / 2;
  const head = lines
    .slice(0, LINE_LIMIT / 2)
    .join("\n")
    .slice(0, half);
  const tail = lines
    .slice(-LINE_LIMIT / 2)
    .join("\n")
    .slice(-half);
  const left = whole.length - head.length - tail.length;
  const cut = `  (… ${countText(Math.max(left, 0), "character")} in between, not shown …)`;
  return left <= 0
    ? { text: whole, isCut: false }
    : { text: `${head}\n${cut}\n${tail}`, isCut: true };
}

/** All that an action would do, in lines that begin with what no action can draw over. */
function wholeAction(action: Action): string {
  const lines = [...linesOf(action)];
  return lines.map((line) => `  ${printable(line)}\n`).join("");
}

function* linesOf(action: Action): Generator<string> {
  const { op } = action;
  switch (op.kind) {
    case "exec":
      yield* commandLines(op);
      return;
    case "write":
      yield `write ${onOneLine(op.path)}`;
      yield* marked("+", op.text);
      return;
    case "patch":
      yield `patch ${onOneLine(op.path)}`;
      if (op.change.kind === "diff") yield* marked(" ", op.change.diff);
      else {
        for (const edit of op.change.edits) {
          yield* marked("-", edit.old);
          yield* marked("+", edit.new);
        }
      }
      return;
    default:
      yield headline(action);
  }
}

function* commandLines(op: ExecOp): Generator<string> {
  const [first = "", ...rest] = shellText(op.argv).split("\n");
  yield `$ ${first}`;
  for (const line of rest) yield `> ${line}`;
  if (op.cwd !== ".") yield `in ${onOneLine(op.cwd)}`;
  for (const { name, value } of op.env) yield `with ${onOneLine(`${name}=${value}`)}`;
  if (op.stdin !== "") yield* marked("<", op.stdin);
  if (op.background) yield "in the background";
  if (op.timeoutMs > 0) yield `for ${timeText(op.timeoutMs)} at most`;
}

/** A text's lines, each with a mark; a carriage return before a line's end is no news. */
function* marked(mark: string, text: string): Generator<string> {
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  for (const line of lines) yield `${mark}${line}`;
}

async function answer(op: QuestionOp, page: Page): Promise<Answer | null> {
  page.write(`\n${printable(op.text)}\n`);
  for (const [index, choice] of op.choices.entries()) {
    page.write(`  ${index + 1}. ${onOneLine(choice)}\n`);
  }
  for (;;) {
    const said = await page.read(`answer${howTo(op)}: `);
    if (said === null) return null;
    const words = said.split(/[\s,]+/).filter((word) => word !== "");
    if (words.length === 0) continue;
    const numbers = words.map((word) => (/^\d+$/.test(word) ? Number(word) : Number.NaN));
    if (op.choices.length === 0 || numbers.some(Number.isNaN)) return { text: said, choices: [] };
    const chosen = numbers.map((number) => op.choices[number - 1]);
    const known = chosen.filter((choice) => choice !== undefined);
    if (known.length < chosen.length) page.write(`  they go from 1 to ${op.choices.length}\n`);
    else if (known.length > 1 && !op.many) page.write("  only one of them\n");
    else return { text: "", choices: [...new Set(known)] };
  }
}

function howTo({ choices, many }: QuestionOp): string {
  if (choices.length === 0) return "";
  return many ? " (numbers, or words)" : " (a number, or words)";
}
