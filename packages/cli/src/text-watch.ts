import { styleText } from "node:util";
import type { Action, Event, OpResult } from "@dev/protocol";
import { never } from "@dev/protocol";
import type { Progress, TurnEnd } from "@dev/session";
import { itemOf, shellText, statusOf } from "./item.ts";
import { faultText, printable } from "./say.ts";
import type { Watch } from "./watch.ts";

/** How many lines of a command that failed are shown. */
const OUTPUT_LINE_LIMIT = 12;

export type TextOutput = {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** Whether stderr takes colour. */
  readonly colour: boolean;
};

/** Progress in lines on stderr, and the last message of a turn on stdout. */
export function textWatch({ out, err, colour }: TextOutput): Watch {
  const style = (format: Parameters<typeof styleText>[0], text: string): string =>
    colour ? styleText(format, text, { validateStream: false }) : text;
  const dim = (text: string): string => style("dim", text);
  const line = (text: string): void => err(`${text}\n`);

  const answered = (action: Action, event: Event): void => {
    if (event.kind === "model" && event.answer.kind === "reply" && event.answer.calls.length > 0) {
      if (event.answer.text !== "") line(printable(event.answer.text));
      return;
    }
    if (!("outcome" in event)) return;
    const { outcome } = event;
    const head = headline(action);
    switch (outcome.kind) {
      case "ok": {
        const failed = statusOf(outcome) === "failed";
        line(
          `${failed ? style("red", "✗") : style("green", "✓")} ${head}${dim(note(outcome.result))}`,
        );
        if (failed && outcome.result.kind === "exec") {
          const text = `${outcome.result.stdout}\n${outcome.result.stderr}`.trim();
          for (const each of text.split("\n").slice(-OUTPUT_LINE_LIMIT))
            line(dim(`    ${printable(each)}`));
        }
        return;
      }
      case "failed":
        return line(`${style("red", "✗")} ${head}  ${faultText(outcome.fault)}`);
      case "refused":
        return line(
          `${style("yellow", "⊘")} ${head}  refused: ${outcome.reason} (${outcome.rule})`,
        );
      case "unknown":
        return line(
          `${style("yellow", "?")} ${head}  unknown whether it finished. ${outcome.known}`,
        );
      case "cancelled":
        return line(`${style("yellow", "⊘")} ${head}  stopped`);
      default:
        return never(outcome);
    }
  };

  return {
    thread: (id) => line(dim(`session ${id}`)),
    failed: (fault) => line(`dev: ${faultText(fault)}`),
    ended: (end) => ended(end, out, line, dim),
    progress: (progress: Progress) => {
      switch (progress.kind) {
        case "answered":
          return answered(progress.action, progress.event);
        case "retried":
          return line(dim(`the model is asked again: ${faultText(progress.after)}`));
        case "cell": {
          const { observation, note } = progress;
          if (observation === "stopping") line(dim("the cell is finishing what it was doing …"));
          else if (observation === "provisioning") line(dim(`preparing the workspace … ${note}`));
          return;
        }
        case "turn_started":
        case "started":
        case "delta":
        case "output":
        case "said":
        case "turn_ended":
          return;
        default:
          return never(progress);
      }
    },
  };
}

function ended(
  end: TurnEnd,
  out: (text: string) => void,
  line: (text: string) => void,
  dim: (text: string) => string,
): void {
  const { inputTokens, outputTokens } = end.usage;
  if (end.message !== "") out(`${end.message}\n`);
  if (end.outcome !== "complete") line(`dev: the turn ended as ${end.outcome}: ${end.reason}`);
  if (end.outcome === "failed") line(`go on where it stopped: dev resume ${end.session}`);
  if (inputTokens + outputTokens > 0) line(dim(`${inputTokens} tokens in, ${outputTokens} out`));
}

/** An action in a few words. */
export function headline(action: Action): string {
  return printable(headlineOf(action)).replaceAll("\n", " ⏎ ");
}

function headlineOf(action: Action): string {
  const { op } = action;
  switch (op.kind) {
    case "exec":
      return `$ ${shellText(op.argv)}`;
    case "git":
      return `$ ${shellText(["git", ...op.argv])}`;
    case "read":
    case "write":
    case "patch":
      return `${op.kind} ${op.path}`;
    case "search":
      return `search ${op.pattern}${op.path === "." ? "" : ` in ${op.path}`}`;
    case "done":
      return `done turn ${op.turn}: ${op.outcome}`;
    case "emit":
      return `emit ${JSON.stringify(op.text.split("\n")[0]?.slice(0, 60) ?? "")}`;
    case "model":
      return `model ${op.model}`;
    default:
      return itemOf(action)?.type ?? op.kind;
  }
}

function note(result: OpResult): string {
  switch (result.kind) {
    case "exec": {
      const { end } = result;
      const how =
        end.kind === "exit"
          ? `exit ${end.code}`
          : end.kind === "signal"
            ? `killed by ${end.signal}`
            : end.kind === "timeout"
              ? "reached its deadline"
              : `runs on as ${end.name}`;
      return `  ${how}, ${(result.durationMs / 1000).toFixed(1)} s`;
    }
    case "write":
      return `  +${result.addedLines} -${result.removedLines}`;
    case "read":
      return `  ${result.lineCount} lines`;
    case "search":
      return `  ${result.matches.length}${result.cut ? "+" : ""} matches`;
    case "browse":
      return `  ${result.status}`;
    case "tool":
      return "";
    default:
      return never(result);
  }
}
