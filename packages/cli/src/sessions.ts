import type { Session } from "@dev/store";
import type { Command } from "./args.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { momentText } from "./figure.ts";
import type { Home } from "./home.ts";
import { fallen } from "./run.ts";
import { fitted, onOneLine } from "./say.ts";
import type { Terminal } from "./terminal.ts";
import { openStore } from "./world.ts";

/** How many sessions one page of the store has. */
const PAGE = 200;

/** `dev sessions`: every session, newest first. */
export async function sessions(
  command: Extract<Command, { kind: "sessions" }>,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  const store = await openStore(home);
  if (!store.ok) return fallen(terminal.watch(command.json), store);
  let before: Session["id"] | undefined;
  let count = 0;
  for (;;) {
    const page = await store.value.sessions(PAGE, before);
    if (!page.ok) return fallen(terminal.watch(command.json), page);
    for (const session of page.value) {
      terminal.print(command.json ? asJson(session) : asLine(session, terminal.columnCount));
    }
    count += page.value.length;
    before = page.value.at(-1)?.id;
    if (page.value.length < PAGE || before === undefined) break;
  }
  store.value.close();
  if (count === 0 && !command.json) terminal.complain("no sessions yet: dev exec begins one\n");
  return EXIT.complete;
}

function asJson(session: Session): string {
  return `${JSON.stringify({
    id: session.id,
    state: session.state,
    title: session.title,
    directory: session.directory,
    cell: session.vendor,
    model: session.model,
    created: new Date(session.createdMs).toISOString(),
    updated: new Date(session.updatedMs).toISOString(),
    sequence: session.sequence,
  })}\n`;
}

function asLine(session: Session, columnCount: number | null): string {
  const head = `${session.id}  ${momentText(session.updatedMs)}  ${session.state.padEnd(STATE_WIDTH)}  `;
  const title = onOneLine(session.title);
  const room = columnCount === null ? null : Math.max(MIN_TITLE_WIDTH, columnCount - head.length);
  const shown = room === null ? title : fitted(title, room);
  return `${`${head}${shown}`.trimEnd()}\n`;
}

/** The longest of the states. */
const STATE_WIDTH = "cancelled".length;
const MIN_TITLE_WIDTH = 20;
