import type { Action } from "@dev/protocol";
import type { Answer, Asker, Permit } from "@dev/session";
import { printable } from "./say.ts";
import { headline } from "./text-watch.ts";

/** Asks on the terminal, one question at a time; what it shows is the action itself. */
export function terminalAsker(input: NodeJS.ReadStream, output: NodeJS.WriteStream): Asker {
  let turn: Promise<unknown> = Promise.resolve();
  /** The next question waits for the answer to the one before it. */
  const inTurn = <T>(ask: () => Promise<T>): Promise<T> => {
    const asked = turn.then(ask, ask);
    turn = asked.catch(() => {});
    return asked;
  };
  const read = async (prompt: string, signal: AbortSignal): Promise<string | null> => {
    if (signal.aborted) return null;
    // Loaded when it is first needed: most runs ask nothing.
    const { createInterface } = await import("node:readline/promises");
    const lines = createInterface({ input, output });
    const interrupt = (): void => {
      process.emit("SIGINT");
    };
    // In raw mode the terminal hands Ctrl-C over as a key: it means what it does elsewhere.
    lines.on("SIGINT", interrupt);
    try {
      return await lines.question(prompt, { signal });
    } catch (error) {
      if (signal.aborted) return null;
      throw error;
    } finally {
      lines.close();
    }
  };
  return {
    permit: (action, reason, signal) => inTurn(() => permit(action, reason, signal, read, output)),
    answer: (action, signal) => inTurn(() => answer(action, signal, read, output)),
  };
}

type Read = (prompt: string, signal: AbortSignal) => Promise<string | null>;

async function permit(
  action: Action,
  reason: string,
  signal: AbortSignal,
  read: Read,
  output: NodeJS.WriteStream,
): Promise<Permit> {
  output.write(`\n${headline(action)}\n${preview(action)}  ${reason}\n`);
  for (;;) {
    const said = await read(
      "  allow? [y] once  [s] for this session  [n] no  (or say why not): ",
      signal,
    );
    if (said === null) return { kind: "no", message: "it was stopped" };
    const word = said.trim();
    if (word === "y" || word === "yes") return { kind: "once" };
    if (word === "s") return { kind: "session" };
    if (word === "n" || word === "no") return { kind: "no", message: "" };
    // An empty line is no answer: a person who leans on the return key permits nothing.
    if (word !== "") return { kind: "no", message: word };
  }
}

/** What a file's change would be, line by line, as far as it fits. */
function preview(action: Action): string {
  const { op } = action;
  if (op.kind === "write") return shown(op.text.split("\n").map((text) => `+${text}`));
  if (op.kind !== "patch") return "";
  if (op.change.kind === "diff") return shown(op.change.diff.split("\n"));
  return shown(
    op.change.edits.flatMap((edit) => [
      ...edit.old.split("\n").map((text) => `-${text}`),
      ...edit.new.split("\n").map((text) => `+${text}`),
    ]),
  );
}

const PREVIEW_LINE_LIMIT = 40;

function shown(lines: readonly string[]): string {
  const more = lines.length - PREVIEW_LINE_LIMIT;
  const head = lines.slice(0, PREVIEW_LINE_LIMIT).map((text) => `  ${printable(text)}\n`);
  return head.join("") + (more > 0 ? `  (${more} more lines)\n` : "");
}

async function answer(
  action: Action,
  signal: AbortSignal,
  read: Read,
  output: NodeJS.WriteStream,
): Promise<Answer | null> {
  const { op } = action;
  if (op.kind !== "question") throw new Error(`action ${action.id} is no question`);
  output.write(`\n${printable(op.text)}\n`);
  for (const [index, choice] of op.choices.entries()) {
    output.write(`  ${index + 1}. ${printable(choice)}\n`);
  }
  const how =
    op.choices.length === 0 ? "" : op.many ? " (numbers, or words)" : " (a number, or words)";
  const said = await read(`answer${how}: `, signal);
  if (said === null) return null;
  const numbers = said.split(/[\s,]+/).filter((word) => word !== "");
  const chosen = numbers.map((word) => op.choices[Number(word) - 1]);
  const allChoices = chosen.length > 0 && chosen.every((choice) => choice !== undefined);
  return allChoices && (op.many || chosen.length === 1)
    ? { text: "", choices: chosen.filter((choice) => choice !== undefined) }
    : { text: said, choices: [] };
}
