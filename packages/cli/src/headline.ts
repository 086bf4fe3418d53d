import type { Action, Op, OpResult } from "@dev/protocol";
import { never } from "@dev/protocol";
import { countText, sizeText, timeText } from "./figure.ts";
import { itemOf, shellText } from "./item.ts";
import { onOneLine } from "./say.ts";

/** An action in a few words, on one line. */
export function headline(action: Action): string {
  return onOneLine(headlineOf(action));
}

function headlineOf(action: Action): string {
  const { op } = action;
  switch (op.kind) {
    case "exec":
      return `$ ${shellText(op.argv)}${op.cwd === "." ? "" : `  (in ${op.cwd})`}`;
    case "git":
      return `$ ${shellText(["git", ...op.argv])}`;
    case "read":
      return `read ${op.path}${linesOf(op)}`;
    case "write":
    case "patch":
      return `${op.kind} ${op.path}`;
    case "search":
      return `search ${op.pattern}${op.path === "." ? "" : ` in ${op.path}`}`;
    case "question":
      return `question: ${op.text}`;
    case "done":
      return `end of turn ${op.turn}: ${op.outcome}`;
    case "emit":
      return `say ${JSON.stringify(op.text.split("\n")[0]?.slice(0, 60) ?? "")}`;
    case "model":
      return op.purpose === "compact" ? SHORTENING : `model ${op.model}`;
    default:
      return itemOf(action)?.type ?? op.kind;
  }
}

/** What a compaction does, in a person's words. */
export const SHORTENING = "shortening the conversation";

function linesOf({ from, to }: Extract<Op, { kind: "read" }>): string {
  if (from === 0 && to === 0) return "";
  return `:${Math.max(1, from)}-${to === 0 ? "" : to}`;
}

/** What came of an action, in a few words; empty where there is nothing to add. */
export function note(result: OpResult): string {
  switch (result.kind) {
    case "exec":
      return `${endText(result.end)}, ${timeText(result.durationMs)}`;
    case "write":
      return `+${result.addedLines} -${result.removedLines}`;
    case "read":
      return `${countText(result.lineCount, "line")}, ${sizeText(result.sizeBytes)}`;
    case "search": {
      const count = countText(result.matches.length, "match", "matches");
      return result.cut ? `${count}, and more` : count;
    }
    case "browse":
      return `HTTP ${result.status}`;
    case "tool":
      return "";
    default:
      return never(result);
  }
}

type End = Extract<OpResult, { kind: "exec" }>["end"];

export function endText(end: End): string {
  switch (end.kind) {
    case "exit":
      return `exit ${end.code}`;
    case "signal":
      return `killed by ${end.signal}`;
    case "timeout":
      return `killed at its deadline of ${timeText(end.afterMs)}`;
    case "background":
      return `runs on as ${end.name}`;
    default:
      return never(end);
  }
}
