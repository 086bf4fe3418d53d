import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Script, type Scripted, startScripted } from "@dev/model/scripted";

/** The command under test, as the build made it. */
export const DEV: string = fileURLToPath(
  new URL("../../packages/cli/bin/dev.cjs", import.meta.url),
);

/** What one run of the command came to. */
export type Ran = {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The lines of stdout, read as JSON: for `--json`. */
  readonly lines: readonly Line[];
};

/** A line of `--json`; tests look into it freely. */
// biome-ignore lint/suspicious/noExplicitAny: it is what the command printed, and tests pick from it.
export type Line = any;

export type RunOptions = {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string | Uint8Array;
};

/** A person's home with settings, a project, and a scripted model; all of it goes with `close`. */
export type Desk = {
  readonly root: string;
  readonly home: string;
  readonly project: string;
  readonly model: Scripted;
  /** Runs `dev` to its end. */
  run(args: readonly string[], options?: RunOptions): Promise<Ran>;
  /** Starts `dev`, and leaves it running: the caller ends it, and reads what `ended` says. */
  start(args: readonly string[], options?: RunOptions): Started;
  close(): Promise<void>;
};

export type Started = { readonly child: ChildProcess; readonly ended: Promise<Ran> };

/** Sets a desk up. `files` are those of the project, by path. */
export async function openDesk(
  script: Script,
  files: Readonly<Record<string, string>> = {},
): Promise<Desk> {
  const root = mkdtempSync(join(tmpdir(), "dev-test-"));
  const home = join(root, "home");
  const project = join(root, "project");
  mkdirSync(home, { mode: 0o700 });
  mkdirSync(project);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(project, path, ".."), { recursive: true });
    writeFileSync(join(project, path), text);
  }
  const model = await startScripted(script);
  writeFileSync(join(home, "config.toml"), settings(model.url));
  const running = new Set<ChildProcess>();
  const start = (args: readonly string[], options: RunOptions = {}): Started => {
    const child = spawn(process.execPath, [DEV, ...args], {
      cwd: project,
      env: { ...bareEnvironment(), HOME: root, DEV_HOME: home, ...options.env },
      stdio: ["pipe", "pipe", "pipe"],
    });
    running.add(child);
    // It may end without having read all of it.
    child.stdin.on("error", () => {}).end(options.stdin ?? "");
    const ended = finished(child);
    void ended.finally(() => running.delete(child));
    return { child, ended };
  };
  return {
    root,
    home,
    project,
    model,
    start,
    run: (args, options) => start(args, options).ended,
    close: async () => {
      for (const child of running) child.kill("SIGKILL");
      await model.close();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

function settings(url: string): string {
  return `model = "scripted/test"\n[providers.scripted]\nwire = "openai-chat"\nbase_url = "${url}"\n`;
}

/** Nothing of the one who runs the tests but what programs are found by. */
function bareEnvironment(): Record<string, string> {
  return { PATH: process.env.PATH ?? "", NO_COLOR: "1" };
}

async function finished(child: ChildProcess): Promise<Ran> {
  const texts = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name]?.setEncoding("utf8").on("data", (text: string) => {
      texts[name] += text;
    });
  }
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve) => {
    child.once("close", (...ended) => resolve(ended));
  });
  const { stdout, stderr } = texts;
  const ran = { code, signal, stdout, stderr };
  return {
    ...ran,
    get lines() {
      const whole = stdout.split("\n").filter((line) => line !== "");
      return whole.map((line) => JSON.parse(line) as Line);
    },
  };
}

/** The id of the session that a `--json` run was of. */
export function threadOf(ran: Ran): string {
  const started = ran.lines.find((line) => line.type === "thread.started");
  if (started === undefined) throw new Error(`no thread was started: ${ran.stdout}${ran.stderr}`);
  return started.thread_id;
}

export function read(path: string): string {
  return readFileSync(path, "utf8");
}
