import type { ExecResult, Fault, OpResult, Outcome, PlanItem, ReplyEvent } from "@dev/protocol";
import { never } from "@dev/protocol";
import { clip } from "./text.ts";

/** What the model is told of a call's end. */
export type Told = { readonly text: string; readonly failed: boolean };

/** Puts an outcome into words: what happened, in the order in which a reader needs it. */
export function tell(outcome: Outcome, limitBytes: number): Told {
  switch (outcome.kind) {
    case "ok":
      return { text: clip(tellResult(outcome.result), limitBytes), failed: erred(outcome.result) };
    case "failed":
      return { text: clip(`failed: ${tellFault(outcome.fault)}`, limitBytes), failed: true };
    case "refused":
      return {
        text: clip(
          `refused, nothing was done: ${outcome.reason} (rule: ${outcome.rule})`,
          limitBytes,
        ),
        failed: true,
      };
    case "unknown":
      return {
        text: clip(
          `unknown: it was started, and whether it finished cannot be known. Check before doing it again. ${outcome.known}`,
          limitBytes,
        ),
        failed: true,
      };
    case "cancelled":
      return {
        text: clip(
          `cancelled: it was stopped; what it had done by then stays done. ${outcome.known}`,
          limitBytes,
        ),
        failed: true,
      };
    default:
      return never(outcome);
  }
}

export function tellReply(reply: ReplyEvent, limitBytes: number): Told {
  const parts = [...reply.choices, reply.text].filter((part) => part !== "");
  return tellText(parts.join("\n"), limitBytes);
}

/** A person's words as the answer to a question. */
export function tellText(text: string, limitBytes: number): Told {
  return { text: text === "" ? "(no answer)" : clip(text, limitBytes), failed: false };
}

/** A plan as its model is told of it, an item a line. */
export function tellPlan(items: readonly PlanItem[]): string {
  if (items.length === 0) return "the plan is empty";
  return items.map(({ text, status }) => `${MARKS[status]} ${text}`).join("\n");
}

const MARKS: { readonly [Status in PlanItem["status"]]: string } = {
  pending: "[ ]",
  active: "[>]",
  done: "[x]",
};

/** Whether a call that ran says of itself that it did not do what it was asked. */
function erred(result: OpResult): boolean {
  return result.kind === "tool" && result.failed;
}

export function tellFault(fault: Fault): string {
  const subject = fault.subject === "" ? "" : `${fault.subject}: `;
  const mend = fault.mend === "" ? "" : ` (${fault.mend})`;
  return `${subject}${fault.message}${mend}`;
}

function tellResult(result: OpResult): string {
  switch (result.kind) {
    case "exec":
      return tellExec(result);
    case "read": {
      const notes = [
        result.lossy ? "bytes that are not UTF-8 are shown as U+FFFD" : "",
        result.cut ? "cut here: ask for later lines with from and to" : "",
      ].filter((note) => note !== "");
      const head = `${result.lineCount} lines, ${result.sizeBytes} bytes, sha256 ${result.digest}`;
      return `${[head, ...notes].join("; ")}\n${result.text}`;
    }
    case "write":
      return `written: +${result.addedLines} -${result.removedLines} lines, now ${result.sizeBytes} bytes, sha256 ${result.after}`;
    case "search": {
      if (result.matches.length === 0) {
        return result.cut ? "no matches that can be shown: narrow the search" : "no matches";
      }
      const lines = result.matches.map((match) =>
        match.line === 0 ? match.path : `${match.path}:${match.line}:${match.text}`,
      );
      return lines.join("\n") + (result.cut ? "\n(there are more: narrow the search)" : "");
    }
    case "browse":
      return `status ${result.status}\n${result.body}${result.cutBytes > 0 ? `\n(${result.cutBytes} bytes cut)` : ""}`;
    case "tool":
      return result.failed ? `the tool reported an error: ${result.text}` : result.text;
    default:
      return never(result);
  }
}

function tellExec(result: ExecResult): string {
  const parts = [tellEnd(result)];
  if (result.stdout !== "") parts.push(`stdout:\n${result.stdout}`);
  if (result.stderr !== "") parts.push(`stderr:\n${result.stderr}`);
  const cutBytes = result.stdoutCutBytes + result.stderrCutBytes;
  if (cutBytes > 0) {
    const where = result.outputPath === "" ? "" : `; the whole output is in ${result.outputPath}`;
    parts.push(
      `(${result.stdoutCutBytes} bytes of stdout and ${result.stderrCutBytes} of stderr were cut from the middle${where})`,
    );
  }
  return parts.join("\n");
}

function tellEnd(result: ExecResult): string {
  const end = result.end;
  switch (end.kind) {
    case "exit":
      return `exit code ${end.code} after ${result.durationMs} ms`;
    case "signal":
      return `killed by ${end.signal} after ${result.durationMs} ms`;
    case "timeout":
      return `it reached its deadline of ${end.afterMs} ms and was killed`;
    case "background":
      return `running in the background as ${end.name}; its output goes to ${result.outputPath}`;
    default:
      return never(end);
  }
}
