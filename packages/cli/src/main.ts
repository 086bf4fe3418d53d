import { never } from "@dev/protocol";
import { asksForJson, type Command, helpText, readCommand } from "./args.ts";
import { EXIT } from "./exit.ts";
import { findHome } from "./home.ts";
import { faultText } from "./say.ts";
import { processTerminal, type Terminal } from "./terminal.ts";
import { VERSION } from "./version.ts";

// A reader that went away, as `head` does, is no fault of ours to report: what it was for is over.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (!isGone(error)) terminal.complain(`dev: the output cannot be written: ${error.message}\n`);
  process.exit(EXIT.failed);
});
// Progress that nobody reads any more is no reason to stop the work, nor is one that has no room; and
// there is nowhere left to say so.
process.stderr.on("error", () => {});

const terminal = processTerminal(
  () => Date.now(),
  () => Math.random(),
);
void start();

async function start(): Promise<void> {
  const words = process.argv.slice(2);
  const command = readCommand(words);
  if (!command.ok) {
    terminal.watch(asksForJson(words)).failed(command.fault);
    process.exitCode = EXIT.usage;
    return;
  }
  try {
    process.exitCode = await perform(command.value, terminal);
  } catch (error) {
    const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
    terminal.complain(`dev: this is a bug of Dev's own; please report it\n${what}\n`);
    process.exitCode = EXIT.failed;
  }
}

function isGone(error: NodeJS.ErrnoException): boolean {
  return error.code === "EPIPE" || error.code === "EIO";
}

/** Runs one command. */
async function perform(command: Command, terminal: Terminal): Promise<number> {
  const home = findHome(terminal.env);
  switch (command.kind) {
    case "exec":
      return (await import("./run.ts")).exec(command, home, terminal);
    case "resume":
      return (await import("./run.ts")).resume(command, home, terminal);
    case "fix":
      return (await import("./fix.ts")).fix(command, home, terminal);
    case "shell":
      return (await import("./shell.ts")).shell(command, home, terminal);
    case "sessions":
      return (await import("./sessions.ts")).sessions(command, home, terminal);
    case "ledger":
      return (await import("./ledger.ts")).ledger(command, home, terminal);
    case "diff":
      return (await import("./changes.ts")).diff(command, home, terminal);
    case "apply":
      return (await import("./changes.ts")).apply(command, home, terminal);
    case "rewind":
      return (await import("./rewind.ts")).rewind(command, home, terminal);
    case "fork":
      return (await import("./rewind.ts")).fork(command, home, terminal);
    case "export":
      return (await import("./archive.ts")).exportTar(command, home, terminal);
    case "import":
      return (await import("./archive.ts")).importTar(command, home, terminal);
    case "gc":
      return (await import("./gc.ts")).gc(command, home, terminal);
    case "connect":
      return (await import("./connect.ts")).connect(command, home, terminal);
    case "doctor":
      return (await import("./doctor.ts")).doctor(command, home, terminal);
    case "version":
      terminal.print(`dev ${VERSION}\n`);
      return EXIT.complete;
    case "help": {
      const text = helpText(command.topic);
      if (text.ok) terminal.print(`${text.value}\n`);
      else terminal.complain(`dev: ${faultText(text.fault)}\n`);
      return text.ok ? EXIT.complete : EXIT.usage;
    }
    default:
      return never(command);
  }
}
