import { accessSync, constants, realpathSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { type Config, DEFAULT_LIMITS } from "@dev/core";
import { OFFERED_TOOLS, toolSpecs } from "@dev/model";
import type { Fault, Result, SessionId } from "@dev/protocol";
import { fail, fault, ok, parseSessionId, sessionId } from "@dev/protocol";
import { Driver, type Prompt, prelude, type Services } from "@dev/session";
import type { NewSession, Session, Store } from "@dev/store";
import type { Command } from "./args.ts";
import { EXIT, type ExitCode, exitOfEnd, exitOfFault } from "./exit.ts";
import { countText } from "./figure.ts";
import type { Home } from "./home.ts";
import { loadSettings, type Settings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";
import type { Watch } from "./watch.ts";
import { checkModel, openStore, openWorld, randomBytes } from "./world.ts";

type Exec = Extract<Command, { kind: "exec" }>;
type Resume = Extract<Command, { kind: "resume" }>;

/** A prompt, in bytes. */
const PROMPT_LIMIT_BYTES = 4 * 1024 * 1024;

/** `dev exec`: a new session, one turn. */
export async function exec(command: Exec, home: Home, terminal: Terminal): Promise<ExitCode> {
  const watch = terminal.watch(command.json);
  const made = await begin(command, home, terminal);
  if (!made.ok) return fallen(watch, made);
  const { store, session, settings, prompt } = made.value;
  const firstMode = terminal.defaultMode(command.json);
  const open = (services: Services): Promise<Result<Driver>> => Driver.begin(services, session);
  return drive(
    { store, session, open, settings, home, terminal, watch, json: command.json },
    { text: prompt, images: [], mode: command.mode, firstMode },
  );
}

/** `dev resume`: goes on where a session stopped, or gives it another prompt. */
export async function resume(command: Resume, home: Home, terminal: Terminal): Promise<ExitCode> {
  const watch = terminal.watch(command.json);
  const found = await find(command.id, home);
  if (!found.ok) return fallen(watch, found);
  const { store, session } = found.value;
  const settings = loadSettings(home, session.directory);
  if (!settings.ok) return fallen(watch, settings);
  const config = JSON.parse(session.config) as Config;
  const model = checkModel(config.model, settings.value, terminal.env);
  if (!model.ok) return fallen(watch, model);
  const prompt = await readPrompt(command.prompt, terminal);
  if (!prompt.ok) return fallen(watch, prompt);
  const missing = await missingOf(session, prompt.value, home);
  if (missing !== null) return fallen(watch, fail(missing));
  const firstMode = terminal.defaultMode(command.json);
  const text = prompt.value ?? (endedEarly(session) ? "" : null);
  const open = (services: Services): Promise<Result<Driver>> => Driver.open(services, session.id);
  return drive(
    { store, session, open, settings: settings.value, home, terminal, watch, json: command.json },
    text === null ? null : { text, images: [], mode: command.mode, firstMode },
  );
}

/** What stands in the way of going on with a session; null if nothing does. */
async function missingOf(
  session: Session,
  prompt: string | null,
  home: Home,
): Promise<Fault | null> {
  const { id, directory, state, holder } = session;
  if (prompt?.trim() === "") return fault("usage", "the prompt is empty");
  if (session.vendor === "local") {
    const found = findDirectory(directory);
    if (!found.ok) {
      const mend = "the session works there: put it back, and resume";
      return { ...found.fault, mend };
    }
  } else {
    const { lostWorkspace } = await import("./workspace.ts");
    const lost = lostWorkspace(session, home);
    if (lost !== null) return lost;
  }
  // A driver that still holds it may have died before it said how the turn ended: that is said now.
  if (prompt !== null || holder !== null) return null;
  if (state === "new") {
    const mend = `give a prompt: dev resume ${id} PROMPT`;
    return fault("usage", "the session has had no prompt yet", id, mend);
  }
  if (state !== "complete") return null;
  const mend = `give it another prompt: dev resume ${id} "…"`;
  return fault("usage", "the session is complete: there is nothing to go on with", id, mend);
}

/** Whether a session's last turn ended, and not because its work was done: it can go on. */
function endedEarly(session: Session): boolean {
  return session.state === "failed" || session.state === "cancelled" || session.state === "limit";
}

type Begun = {
  readonly store: Store;
  readonly session: NewSession;
  readonly settings: Settings;
  readonly prompt: string;
};

async function begin(command: Exec, home: Home, terminal: Terminal): Promise<Result<Begun>> {
  const directory = findDirectory(command.directory);
  if (!directory.ok) return directory;
  if (command.cell !== "local" && directory.value === "/") {
    const mend = "name a directory below it with -C";
    return fail(fault("usage", "a whole machine cannot be copied for a cell", "/", mend));
  }
  const settings = loadSettings(home, directory.value);
  if (!settings.ok) return settings;
  const model = command.model ?? settings.value.model;
  if (model === null)
    return fail(fault("config", "no model is configured", "", howToConfigure(home)));
  const checked = checkModel(model, settings.value, terminal.env);
  if (!checked.ok) return checked;
  const prompt = await readPrompt(command.prompt, terminal);
  if (!prompt.ok) return prompt;
  const text = prompt.value ?? "";
  if (text.trim() === "") {
    return fail(fault("usage", "the prompt is empty", "", 'say what to do: dev exec "…"'));
  }
  const instructions = prelude(directory.value);
  if (!instructions.ok) return instructions;
  const config: Config = {
    model,
    effort: settings.value.effort,
    prelude: instructions.value,
    tools: toolSpecs(OFFERED_TOOLS),
    limits: { ...DEFAULT_LIMITS, ...settings.value.limits },
  };
  const store = await openStore(home);
  if (!store.ok) return store;
  const nowMs = terminal.nowMs();
  const id = sessionId(nowMs, randomBytes(terminal));
  const session = {
    id,
    createdMs: nowMs,
    directory: directory.value,
    vendor: command.cell,
    model,
    config: JSON.stringify(config),
  };
  return ok({ store: store.value, session, settings: settings.value, prompt: text });
}

/** Finds a session by its id. */
export async function find(
  id: string,
  home: Home,
): Promise<Result<{ readonly store: Store; readonly session: Session }>> {
  const parsed = parseSessionId(id);
  if (!parsed.ok) return parsed;
  const store = await openStore(home);
  if (!store.ok) return store;
  const session = await store.value.session(parsed.value as SessionId);
  return session.ok ? ok({ store: store.value, session: session.value }) : session;
}

type Drive = {
  readonly store: Store;
  readonly session: NewSession;
  readonly open: (services: Services) => Promise<Result<Driver>>;
  readonly settings: Settings;
  readonly home: Home;
  readonly terminal: Terminal;
  readonly watch: Watch;
  readonly json: boolean;
};

async function drive(drive: Drive, prompt: Prompt | null): Promise<ExitCode> {
  const { store, session, settings, home, terminal, watch, json } = drive;
  const { signal, release } = terminal.interrupts();
  let isAnnounced = false;
  // Whoever is told of a session can go on with it: it is told once its prompt, or what it goes on
  // with, is durable, and that is before anything else is told of it.
  const announce = (): void => {
    if (!isAnnounced) watch.thread(session.id);
    isAnnounced = true;
  };
  const world = openWorld(store, {
    home,
    settings,
    terminal,
    vendor: session.vendor,
    signal,
    asker: terminal.asker(json),
    onProgress: (progress) => {
      announce();
      watch.progress(progress);
    },
    onNote: (text) => watch.note(text),
  });
  try {
    const driver = await drive.open(world.services);
    if (!driver.ok) return fallen(watch, driver);
    let code: ExitCode;
    try {
      const end = await driver.value.run(prompt, signal);
      const isUntouched = !end.ok && end.fault.code === "usage";
      if (!isUntouched) announce();
      if (end.ok) watch.ended(end.value);
      if (end.ok) code = exitOfEnd(end.value);
      else {
        code = signal.aborted ? EXIT.interrupted : fallen(watch, end);
        if (!isUntouched) watch.note(`go on where it stopped: dev resume ${session.id}`);
      }
    } finally {
      await driver.value.close();
    }
    if (session.vendor !== "local" && !json) await tellChanges(session, home, watch);
    return code;
  } finally {
    release();
    world.close();
    store.close();
  }
}

/** How to get at work that was done in a copy. */
async function tellChanges(session: NewSession, home: Home, watch: Watch): Promise<void> {
  const { changedCount } = await import("./workspace.ts");
  const count = await changedCount(session.id, home);
  if (count === 0) return;
  watch.note(`${countText(count, "file")} changed, in the session's own copy of the directory
  look at it:  dev diff ${session.id}
  bring it in: dev apply ${session.id}`);
}

/** Says what failed, and answers the exit code that says so. */
export function fallen(watch: Watch, failed: Extract<Result<never>, { ok: false }>): ExitCode {
  watch.failed(failed.fault);
  return exitOfFault(failed.fault);
}

async function readPrompt(
  prompt: string | null,
  terminal: Terminal,
): Promise<Result<string | null>> {
  if (prompt !== "-") return ok(prompt);
  return terminal.readStdin(PROMPT_LIMIT_BYTES);
}

function findDirectory(given: string): Result<string> {
  try {
    const directory = realpathSync(resolve(given));
    if (!statSync(directory).isDirectory()) return fail(fault("usage", "not a directory", given));
    accessSync(directory, constants.R_OK | constants.X_OK);
    return ok(directory);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : "";
    const known = new Map<unknown, string>([
      ["ENOENT", "there is no such directory"],
      ["ENOTDIR", "not a directory"],
      ["EACCES", "the directory may not be read"],
    ]);
    const message = known.get(code) ?? (error instanceof Error ? error.message : String(error));
    return fail(fault("usage", message, given));
  }
}

function howToConfigure(home: Home): string {
  return `put this into ${home.config}, with your own endpoint:
    model = "local/some-model"
    [providers.local]
    wire = "openai-chat"
    base_url = "http://127.0.0.1:8080/v1"
    env_key = "LOCAL_API_KEY"   # the name of a variable; leave it out where no key is needed`;
}
