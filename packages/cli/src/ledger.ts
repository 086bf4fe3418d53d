import { type Event, never, type Outcome, ROOT_AGENT } from "@dev/protocol";
import type { LedgerEntry, LedgerLine, NetworkRequest } from "@dev/store";
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
  const asked = found.ok ? await found.value.store.requests(found.value.session.id) : found;
  if (!asked.ok) return fallen(terminal.watch(command.json), asked);
  const known = new Set<number | null>(entries.value.map(({ action }) => action.id));
  for (const entry of entries.value) {
    const own = asked.value.filter(({ action }) => action === entry.action.id);
    terminal.print(command.json ? `${JSON.stringify(entry)}\n` : asText(entry, own));
  }
  const others = asked.value.filter(({ action }) => !known.has(action));
  if (command.json) {
    for (const request of asked.value) terminal.print(`${JSON.stringify({ request })}\n`);
  } else if (others.length > 0) terminal.print(`       of no known action\n${linesOf(others)}`);
  if (found.ok) found.value.store.close();
  return EXIT.complete;
}

function asText({ action, lines }: LedgerEntry, requests: readonly NetworkRequest[]): string {
  const whose = action.agent === ROOT_AGENT ? "" : `agent ${action.agent}: `;
  const head = `${String(action.id).padStart(5)}  ${whose}${headline(action)}\n`;
  return head + lines.map((line) => `       ${lineText(line)}\n`).join("") + linesOf(requests);
}

function linesOf(requests: readonly NetworkRequest[]): string {
  return requests.map((request) => `       ${requestText(request)}\n`).join("");
}

/** A request to the network, on one line; the host and the path are what a command wrote. */
export function requestText(request: NetworkRequest): string {
  const { method, host, port, path, status, upBytes, downBytes, verdict, rule, reason } = request;
  const what = [method, host === "" ? "" : `${host}:${port}${path}`].filter((part) => part !== "");
  const sizes = `${grouped(upBytes)} bytes up, ${grouped(downBytes)} down`;
  const said = status === 0 ? sizes : `${status}, ${sizes}`;
  const how =
    verdict === "allowed"
      ? [said, rule, reason].filter((part) => part !== "").join("; ")
      : `${verdict}: ${reason}`;
  const words = onOneLine(`${what.join(" ")}  ${how}`);
  return `${timeText(request.atMs)}  ${"network".padEnd(STATE_WIDTH)}  ${words}`;
}

/** The longest word of a line, so that what follows stands below what follows. */
const STATE_WIDTH = "dispatched".length;

function lineText(line: LedgerLine): string {
  const attempt = line.attempt > 1 ? `attempt ${line.attempt}` : "";
  const more = [attempt, endText(line)].filter((part) => part !== "").join(", ");
  const state = more === "" ? line.state : line.state.padEnd(STATE_WIDTH);
  return `${timeText(line.atMs)}  ${state}  ${more}`.trimEnd();
}

function timeText(atMs: number): string {
  const at = new Date(atMs);
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map((each) => two(each)).join(":");
  return `${time}.${String(at.getMilliseconds()).padStart(3, "0")}`;
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
