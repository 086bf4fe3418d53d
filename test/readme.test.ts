import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type FixedStep, type Script, type Scripted, startScripted } from "@dev/model/scripted";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { read } from "./support/dev.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const PAGES = ["README.md", "docs/start.md"] as const;
const ALL_PAGES = [...PAGES, "docs/concepts.md", "CONTRIBUTING.md", "CHANGELOG.md"] as const;
const LIMIT_MS = 90_000;

type Block = { readonly language: string; readonly text: string };

/** The code blocks of a page. */
function blocksOf(page: string): readonly Block[] {
  const found = read(join(ROOT, page)).matchAll(/^```(\w+)\n(.*?)^```$/gms);
  return [...found].map(([, language = "", text = ""]) => ({ language, text }));
}

/** The commands of a page: the lines of its shell blocks, without their comments. */
function commandsOf(page: string): readonly string[] {
  const lines = blocksOf(page)
    .filter(({ language }) => language === "sh")
    .flatMap(({ text }) => text.split("\n"));
  return lines.map((line) => line.replace(/\s+# .*$/, "").trim()).filter((line) => line !== "");
}

/** A person who has just cloned: a home of their own, a project, a model that is at work. */
type Person = {
  readonly home: string;
  readonly project: string;
  readonly model: Scripted;
  readonly env: Record<string, string>;
  /** Makes the model fail its next request, so that a session stops in the middle. */
  failNext: boolean;
};

let person: Person;
beforeAll(async () => {
  const home = mkdtempSync(join(tmpdir(), "dev-readme-"));
  const project = join(home, "project");
  mkdirSync(project);
  writeFileSync(join(project, "a.txt"), "a\n");
  const step = (): FixedStep => {
    if (person.failNext) {
      person.failNext = false;
      return { fault: { kind: "status", status: 400 } };
    }
    const asked = person.model.requests.at(-1)?.messages.at(-1);
    const call = { tool: "write", arguments: { path: "b.txt", text: "b\n" } };
    return asked?.role === "user" ? { reply: { calls: [call] } } : { reply: { text: "done" } };
  };
  const script: Script = Array.from({ length: 100 }, () => step);
  const model = await startScripted(script);
  const path = `${join(ROOT, "node_modules/.bin")}:${process.env.PATH}`;
  const env = { HOME: home, PATH: path, NO_COLOR: "1", LOCAL_API_KEY: "k" };
  person = { home, project, model, env, failNext: false };
});
afterAll(async () => {
  await person.model.close();
  rmSync(person.home, { recursive: true, force: true });
});

type Ended = { readonly code: number | null; readonly output: string };

function shell(command: string, cwd: string): Promise<Ended> {
  return new Promise((resolve) => {
    const child = spawn("sh", ["-c", command], {
      cwd,
      env: person.env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    }
    child.once("close", (code) => resolve({ code, output }));
  });
}

/** The settings that the page tells a person to write, but for the address of the model. */
async function configure(page: string): Promise<void> {
  const block = blocksOf(page).find(({ text }) => text.includes("[providers."));
  const text = block?.text.replace(/base_url = ".*"/, `base_url = "${person.model.url}"`) ?? "";
  const directory = join(person.home, ".config/dev");
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "config.toml"), text);
}

async function sessions(): Promise<readonly { readonly id: string; readonly cell: string }[]> {
  const { output } = await shell("dev sessions --json", person.project);
  return output
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
}

async function newest(cell?: string): Promise<string> {
  const found = (await sessions()).find((each) => cell === undefined || each.cell === cell);
  if (found === undefined) throw new Error("no session yet");
  return found.id;
}

async function stoppedSession(): Promise<string> {
  person.failNext = true;
  expect(await shell('dev exec "stop in the middle"', person.project)).toMatchObject({ code: 1 });
  return newest();
}

/** How to run each command that a page may name; one that is not among these fails the test. */
const KNOWN: readonly (readonly [RegExp, (command: string) => Promise<Ended>])[] = [
  // The set-up of `make` was the reader's to run: the rest of the target is run here.
  [/^make demo$/, () => shell("make -n demo && node tools/demo.mjs", ROOT)],
  [/^make build$/, () => shell("make -n build && test -e packages/cli/dist/dev.cjs", ROOT)],
  [
    /^export PATH="\$PWD\/node_modules\/\.bin:\$PATH"$/,
    (command) => shell(`PATH=/usr/bin:/bin; ${command}; command -v dev`, ROOT),
  ],
  [/^dev (doctor|sessions)$/, (command) => shell(command, person.project)],
  [/^dev exec (--cell bubblewrap )?"[^"]+"$/, (command) => shell(command, person.project)],
  [
    /^dev diff ID && dev apply ID$/,
    async (command) => shell(named(command, await newest("bubblewrap")), person.project),
  ],
  [
    /^dev resume ID$/,
    async (command) => shell(named(command, await stoppedSession()), person.project),
  ],
  [
    /^dev (resume ID "[^"]+"|ledger ID)$/,
    async (command) => shell(named(command, await newest()), person.project),
  ],
];

function named(command: string, id: string): string {
  return command.replaceAll("ID", id);
}

describe.each(PAGES)("%s", (page) => {
  test("every command in it works, in its order", { timeout: LIMIT_MS }, async () => {
    await configure(page);
    const commands = commandsOf(page);
    expect(commands.length).toBeGreaterThan(3);
    for (const command of commands) {
      const run = KNOWN.find(([pattern]) => pattern.test(command))?.[1];
      if (run === undefined) throw new Error(`nobody knows how to run this: ${command}`);
      expect(await run(command), command).toMatchObject({ code: 0 });
    }
    expect(person.model.errors).toEqual([]);
  });

  test("every TOML block in it is accepted as settings", async () => {
    const blocks = blocksOf(page).filter(({ language }) => language === "toml");
    expect(blocks.length).toBeGreaterThan(0);
    for (const { text } of blocks) {
      const home = mkdtempSync(join(person.home, "settings-"));
      writeFileSync(join(home, "config.toml"), text);
      const { output } = await shell(`DEV_HOME=${home} dev doctor --json`, person.project);
      const checks = output.split("\n").filter((line) => line.startsWith("{"));
      const settings = checks
        .map((line) => JSON.parse(line))
        .find((each) => each.name === "settings");
      expect(settings, text).toMatchObject({ state: "ok", text: join(home, "config.toml") });
    }
  });

  test("no block is in a language that nothing checks", () => {
    for (const { language } of blocksOf(page)) expect(["sh", "toml"]).toContain(language);
  });
});

test.each(ALL_PAGES)("every link in %s leads somewhere", (page) => {
  const text = read(join(ROOT, page));
  for (const [, target = ""] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^https?:/.test(target)) continue;
    const [path = "", anchor] = target.split("#");
    const file = path === "" ? join(ROOT, page) : join(ROOT, dirname(page), path);
    expect(existsSync(file), `${page} -> ${target}`).toBe(true);
    if (anchor !== undefined) expect(anchorsOf(read(file)), target).toContain(anchor);
  }
});

function anchorsOf(text: string): readonly string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replace(/[^\w\- ]/g, "")
      .replaceAll(" ", "-"),
  );
}

test("every command, flag and exit code that the pages name is one that `dev help` has", async () => {
  const { output: help } = await shell("dev help", ROOT);
  const commands = [...help.matchAll(/^ {2}(\w+) {2,}/gm)].map(([, name = ""]) => name);
  const flags = new Map<string, string>();
  for (const name of commands) flags.set(name, (await shell(`dev help ${name}`, ROOT)).output);
  const all = [...flags.values()].join("\n");
  for (const page of [...PAGES, "docs/concepts.md"]) {
    const text = read(join(ROOT, page));
    for (const [, name = ""] of text.matchAll(/`dev ([a-z]+)/g)) {
      expect(commands, page).toContain(name);
    }
    for (const [flag] of text.matchAll(/(?<=[\s`])--?[A-Za-z][a-z]*\b/g)) {
      if (flag === "-c") continue;
      expect(`${help}\n${all}`, `${page}: ${flag}`).toContain(flag);
    }
  }
  const codes = /^Exit codes: (.*?\.)$/ms.exec(help)?.[1]?.replace(/\s+/g, " ");
  expect(read(join(ROOT, "docs/start.md"))).toContain(`Exit codes: ${codes}`);
});

test("the modes and cells of the tables are those that the flags take", async () => {
  const text = read(join(ROOT, "docs/start.md"));
  const rows = [...text.matchAll(/^\| `(\w+)`/gm)].map(([, word = ""]) => word);
  const wrong = await shell("dev exec --mode x y; dev exec --cell x y", ROOT);
  const [, modes = "", cells = ""] =
    /--mode is one of ([a-z, ]+), not[\s\S]*--cell is one of ([a-z, ]+), not/.exec(wrong.output) ??
    [];
  expect(rows).toEqual([...modes.split(", "), ...cells.split(", ")]);
});
