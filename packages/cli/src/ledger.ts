import type { LedgerEntry, LedgerLine } from "@dev/store";
import type { Command } from "./args.ts";
import { EXIT, type ExitCode, exitOfFault } from "./exit.ts";
import type { Home } from "./home.ts";
import { find } from "./run.ts";
import { faultText } from "./say.ts";
import type { Terminal } from "./terminal.ts";
import { headline } from "./text-watch.ts";

/** `dev ledger`: every action of a session, with its life. */
export async function ledger(
  command: Extract<Command, { kind: "ledger" }>,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  const found = await find(command.id, home);
  const entries = found.ok ? await found.value.store.ledger(found.value.session.id) : found;
  if (!entries.ok) {
    terminal.complain(`dev: ${faultText(entries.fault)}\n`);
    return exitOfFault(entries.fault);
  }
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

function lineText(line: LedgerLine): string {
  const at = new Date(line.atMs).toISOString().slice(11, 23);
  const attempt = line.attempt > 1 ? ` (attempt ${line.attempt})` : "";
  return `${at}  ${line.state}${attempt}${endText(line)}`;
}

function endText({ outcome, usage, detail }: LedgerLine): string {
  if (outcome !== null) {
    if (outcome.kind === "refused") return `: ${outcome.reason} (${outcome.rule})`;
    if (outcome.kind === "failed") return `: failed, ${outcome.fault.message}`;
    if (outcome.kind !== "ok") return `: ${outcome.kind}`;
    const { result } = outcome;
    if (result.kind !== "exec") return ": ok";
    return result.end.kind === "exit" ? `: exit ${result.end.code}` : `: ${result.end.kind}`;
  }
  if (usage !== null) return `: ${usage.inputTokens} tokens in, ${usage.outputTokens} out`;
  return detail === "" ? "" : `: ${detail.slice(0, 80)}`;
}
