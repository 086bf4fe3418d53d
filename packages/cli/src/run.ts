import { accessSync, constants, realpathSync, statSync } from "node:fs";
import { resolve } from "node:path";
import type { Config } from "@dev/core";
import { KNOWN_PROVIDERS } from "@dev/model";
import type { Fault, Image, Result, SessionId } from "@dev/protocol";
import { fail, fault, ok, parseSessionId, sessionId } from "@dev/protocol";
import { Driver, type Prompt, type Services } from "@dev/session";
import type { NewSession, Session, Store } from "@dev/store";
import type { Command } from "./args.ts";
import { checkConfig, configOf } from "./config.ts";
import { EXIT, type ExitCode, exitOfEnd, exitOfFault } from "./exit.ts";
import { countText } from "./figure.ts";
import type { Home } from "./home.ts";
import { readImages } from "./image.ts";
import { loadSettings, type Settings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";
import type { Watch } from "./watch.ts";
import { openStore, openWorld, randomBytes } from "./world.ts";

type Exec = Extract<Command, { kind: "exec" }>;
type Resume = Extract<Command, { kind: "resume" }>;

/** A prompt, in bytes. */
const PROMPT_LIMIT_BYTES = 4 * 1024 * 1024;

/** `dev exec`: a new session, one turn. */
export async function exec(command: Exec, home: Home, terminal: Terminal): Promise<ExitCode> {
  const watch = terminal.watch(command.json);
  const made = await begin(command, home, terminal, watch);
  if (!made.ok) return fallen(watch, made);
  const { store, session, settings, prompt, images } = made.value;
  const firstMode = terminal.defaultMode(command.json);
  const open = (services: Services): Promise<Result<Driver>> => Driver.begin(services, session);
  return drive(
    { store, session, open, settings, home, terminal, watch, json: command.json },
    { text: prompt, images, mode: command.mode, firstMode },
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
  const checked = checkConfig(config, settings.value, terminal.env);
  if (!checked.ok) return fallen(watch, checked);
  const anew = "begin a session with a model that does: one keeps what it began with";
  const images = imagesFor(command.images, config, anew);
  if (!images.ok) return fallen(watch, images);
  const prompt = await readPrompt(command.prompt, terminal);
  if (!prompt.ok) return fallen(watch, prompt);
  const missing = await missingOf(session, store, prompt.value, home);
  if (missing !== null) return fallen(watch, fail(missing));
  const firstMode = terminal.defaultMode(command.json);
  const text = prompt.value ?? (endedEarly(session) ? "" : null);
  const open = (services: Services): Promise<Result<Driver>> => Driver.open(services, session.id);
  return drive(
    { store, session, open, settings: settings.value, home, terminal, watch, json: command.json },
    text === null ? null : { text, images: images.value, mode: command.mode, firstMode },
  );
}

/** What stands in the way of going on with a session; null if nothing does. */
async function missingOf(
  session: Session,
  store: Store,
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
    const checkpoints = await store.checkpoints(session.id);
    if (!checkpoints.ok) return checkpoints.fault;
    const lost = lostWorkspace(session, home, checkpoints.value);
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
  readonly images: readonly Image[];
};

async function begin(
  command: Exec,
  home: Home,
  terminal: Terminal,
  watch: Watch,
): Promise<Result<Begun>> {
  const planned = plan(command, home, terminal, watch);
  if (!planned.ok) return planned;
  const { directory, model, settings, config } = planned.value;
  const allow = `choose a model that does; if this one does, set images = true under [models."${model}"] in ${home.config}`;
  const images = imagesFor(command.images, config, allow);
  if (!images.ok) return images;
  const prompt = await readPrompt(command.prompt, terminal);
  if (!prompt.ok) return prompt;
  const text = prompt.value ?? "";
  if (text.trim() === "") {
    return fail(fault("usage", "the prompt is empty", "", 'say what to do: dev exec "…"'));
  }
  const store = await openStore(home);
  if (!store.ok) return store;
  const nowMs = terminal.nowMs();
  const id = sessionId(nowMs, randomBytes(terminal));
  const session = {
    id,
    createdMs: nowMs,
    directory,
    vendor: command.cell,
    model,
    config: JSON.stringify(config),
  };
  return ok({
    store: store.value,
    session,
    settings,
    prompt: text,
    images: images.value,
  });
}

/** What a session begins with, before there is one. */
export type Plan = {
  readonly directory: string;
  readonly model: string;
  readonly settings: Settings;
  readonly config: Config;
};

/** Settles what a new session works with, and where. Faults: `usage`, `config`. */
export function plan(
  command: Pick<Exec, "directory" | "cell" | "model">,
  home: Home,
  terminal: Terminal,
  watch: Watch,
): Result<Plan> {
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
  const chosen = [command.model, settings.value.ownModel];
  const terms = { model, settings: settings.value, env: terminal.env, chosen };
  const config = configOf({
    ...terms,
    directory: directory.value,
    onPassedOver: ({ subject, message }) => watch.note(`no sub-agent from ${subject}: ${message}`),
  });
  if (!config.ok) return config;
  return ok({ directory: directory.value, model, settings: settings.value, config: config.value });
}

/** The images of a prompt, for a model that takes some; `mend` says what to do where it does not. */
function imagesFor(
  paths: readonly string[],
  { model, images }: Config,
  mend: string,
): Result<readonly Image[]> {
  if (paths.length === 0) return ok([]);
  if (images === true) return readImages(paths);
  return fail(fault("usage", "the model is not known to take images", model, mend));
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
  let isAnnounced = false;
  const goOn = `go on where it stopped: dev resume ${session.id}`;
  const { signal, release } = terminal.interrupts(() => {
    if (isAnnounced) watch.note(goOn);
  });
  // Whoever is told of a session can go on with it: it is told once its prompt, or what it goes on
  // with, is durable, and that is before anything else is told of it.
  const announce = (): void => {
    if (!isAnnounced) watch.thread(session.id);
    isAnnounced = true;
  };
  const world = openWorld(store, {
    session: session.id,
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
        if (!isUntouched) watch.note(goOn);
      }
    } finally {
      await driver.value.close();
    }
    if (session.vendor !== "local" && !json) await tellChanges(session, home, watch);
    return code;
  } finally {
    release();
    await world.close();
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
    env_key = "LOCAL_API_KEY"   # the name of a variable; leave it out where no key is needed
or name a model of a provider that Dev knows, whose key is in the environment:
    model = "anthropic/claude-sonnet-5-5"   # ANTHROPIC_API_KEY
the others: ${Object.keys(KNOWN_PROVIDERS).join(", ")}`;
}
