import { type Event, never, type Outcome } from "@dev/protocol";
import type { LedgerEntry, LedgerLine } from "@dev/store";
import type { Command } from "./args.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { grouped } from "./figure.ts";
import { headline, endText as howItEnded } from "./headline.ts";
import type { Home } from "./home.ts";
import { fallen, find } from "./run.ts";
import { fitted, onOneLine } from "./say.ts";
import type { Terminal } from "./terminal.ts";

/** `dev ledger`: every action of a session, with its life. */
export async function ledger(
  command: Extract<Command, { kind: "ledger" }>,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  const found = await find(command.id, home);
  const entries = found.ok ? await found.value.store.ledger(found.value.session.id) : found;
  if (!entries.ok) return fallen(terminal.watch(command.json), entries);
  for (const entry of entries.value) {
    terminal.print(command.json ? `${JSON.stringify(entry)}\n` : asText(entry));
  }
  if (found.ok) found.value.store.close();
  return EXIT.complete;
}

function asText({ action, lines }: LedgerEntry): string {
  const head = `${String(action.id).padStart(5)}  ${headline(action)}\n`;
  return head + lines.map((line) => `       ${lineText(line)}\n`).join("");
}

/** The longest word of a line, so that what follows stands below what follows. */
const STATE_WIDTH = "dispatched".length;

function lineText(line: LedgerLine): string {
  const at = new Date(line.atMs);
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map((each) => two(each)).join(":");
  const attempt = line.attempt > 1 ? `attempt ${line.attempt}` : "";
  const more = [attempt, endText(line)].filter((part) => part !== "").join(", ");
  const state = more === "" ? line.state : line.state.padEnd(STATE_WIDTH);
  return `${time}.${String(at.getMilliseconds()).padStart(3, "0")}  ${state}  ${more}`.trimEnd();
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

/** Of what a line says in words, what is shown. */
const DETAIL_LIMIT = 100;

/** How a line of the ledger ends, in words. */
export function endText({ outcome, usage, detail }: LedgerLine): string {
  if (outcome !== null) return outcomeText(outcome);
  if (detail.startsWith(LATE)) return lateText(detail.slice(LATE.length));
  // Of a model call, words are there only where it failed.
  if (usage !== null && detail === "")
    return `${grouped(usage.inputTokens)} tokens in, ${grouped(usage.outputTokens)} out`;
  const words = usage === null ? detail : `failed: ${detail}`;
  return fitted(onOneLine(words), DETAIL_LIMIT);
}

/** What begins the detail of an event that came after its turn had ended; the event follows, as JSON. */
const LATE = "late: ";

function lateText(text: string): string {
  let event: Event;
  try {
    event = JSON.parse(text) as Event;
  } catch {
    // A long one is cut where it is kept.
    return `${LATE}its answer, of which the ledger has the beginning`;
  }
  if ("outcome" in event) return LATE + outcomeText(event.outcome);
  return `${LATE}${event.kind === "model" ? "the model's answer" : "an answer"}`;
}

function outcomeText(outcome: Outcome): string {
  switch (outcome.kind) {
    case "ok":
      return outcome.result.kind === "exec" ? howItEnded(outcome.result.end) : "ok";
    case "failed":
      return fitted(onOneLine(`failed: ${outcome.fault.message}`), DETAIL_LIMIT);
    case "refused":
      return onOneLine(`${outcome.reason} (${outcome.rule})`);
    case "unknown":
    case "cancelled":
      return outcome.kind;
    default:
      return never(outcome);
  }
}
