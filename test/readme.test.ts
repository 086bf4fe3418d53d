import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { DEFAULT_LIMITS } from "@dev/core";
import { OFFERED_TOOLS } from "@dev/model";
import { type FixedStep, type Script, type Scripted, startScripted } from "@dev/model/scripted";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { read } from "./support/dev.ts";
import { isCompaction } from "./support/script.ts";
import { slipped } from "./support/slip.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const GUIDES = ["docs/guides/agents.md", "docs/guides/long-sessions.md"] as const;
const PAGES = ["README.md", "docs/start.md", ...GUIDES] as const;
const ALL_PAGES = [
  ...PAGES,
  "docs/concepts.md",
  "docs/guides/fix.md",
  "CONTRIBUTING.md",
  "CHANGELOG.md",
] as const;
const LIMIT_MS = 300_000;

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
    const request = person.model.requests.at(-1);
    if (request !== undefined && isCompaction(request)) return { reply: { text: "a summary" } };
    const asked = request?.messages.at(-1);
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

/** The settings that a person is told to write at the start, but for the address of the model. */
function configure(): void {
  const block = blocksOf("docs/start.md").find(({ text }) => text.includes("[providers."));
  const text = block?.text.replace(/base_url = ".*"/, `base_url = "${person.model.url}"`) ?? "";
  const directory = join(person.home, ".config/dev");
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "config.toml"), text);
}

/** Writes the files that a page tells a person to put somewhere. */
function putFiles(page: string): void {
  const told = read(join(ROOT, page)).matchAll(/into `([^`]+\.md)`:\n\n```md\n(.*?)^```$/gms);
  for (const [, path = "", text = ""] of told) {
    mkdirSync(dirname(join(person.project, path)), { recursive: true });
    writeFileSync(join(person.project, path), text);
  }
}

async function checksOf(env: string): Promise<readonly { readonly name: string }[]> {
  const { output } = await shell(`${env} dev doctor --json`, person.project);
  const lines = output.split("\n").filter((line) => line.startsWith("{"));
  return lines.map((line) => JSON.parse(line));
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
  [/^dev fix -- npm test$/, fixed],
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

/** In a project with a slip, by somebody who has no model yet. */
function fixed(command: string): Promise<Ended> {
  const { home, ...slip } = slipped(person.home);
  return shell(`DEV_HOME=${home} ${command}`, slip.project);
}

function named(command: string, id: string): string {
  return command.replaceAll("ID", id);
}

describe.each(PAGES)("%s", (page) => {
  test("every command in it works, in its order", { timeout: LIMIT_MS }, async () => {
    configure();
    putFiles(page);
    const commands = commandsOf(page);
    expect(commands.length).toBeGreaterThan(1);
    for (const command of commands) {
      const run = KNOWN.find(([pattern]) => pattern.test(command))?.[1];
      if (run === undefined) throw new Error(`nobody knows how to run this: ${command}`);
      expect(await run(command), command).toMatchObject({ code: 0 });
    }
    expect(person.model.errors).toEqual([]);
  });

  test("its TOML blocks together are accepted as settings", async () => {
    const blocks = blocksOf(page).filter(({ language }) => language === "toml");
    expect(blocks.length).toBeGreaterThan(0);
    const home = mkdtempSync(join(person.home, "settings-"));
    writeFileSync(join(home, "config.toml"), blocks.map(({ text }) => text).join("\n"));
    const settings = (await checksOf(`DEV_HOME=${home}`)).find(({ name }) => name === "settings");
    expect(settings).toMatchObject({ state: "ok", text: join(home, "config.toml") });
  });

  test("no block is in a language that nothing checks", () => {
    for (const { language } of blocksOf(page)) expect(["sh", "toml", "md"]).toContain(language);
  });
});

test("the kind of sub-agent that the guide describes is one, and the tools are all that there are", async () => {
  configure();
  putFiles("docs/guides/agents.md");
  expect(await checksOf("")).toContainEqual(
    expect.objectContaining({ name: "sub-agents", state: "ok", text: "reviewer" }),
  );
  const text = read(join(ROOT, "docs/guides/agents.md"));
  const [, told = ""] = /^The tools are (.*?);/ms.exec(text) ?? [];
  const names = [...told.matchAll(/`(\w+)`/g)].map(([, name]) => name);
  expect(names.toSorted()).toEqual(OFFERED_TOOLS.toSorted());
});

test("the limits that the guides tell are those of the core and of `--image`", async () => {
  const agents = read(join(ROOT, "docs/guides/agents.md")).replace(/ +/g, " ");
  const { agentDepth, agentCount, modelCallsPerTurn, compactPercent, keptBytes } = DEFAULT_LIMITS;
  expect(agents).toContain(`| nested in one another | ${agentDepth} deep |`);
  expect(agents).toContain(`| at work at a time | ${agentCount} |`);
  expect(agents).toContain(`all agents together | ${modelCallsPerTurn} |`);
  const long = read(join(ROOT, "docs/guides/long-sessions.md"));
  expect(long).toContain(`used ${compactPercent} percent of it`);
  expect(long).toContain(`the newest messages, ${keptBytes / 1024} KB at most`);
  const { output: help } = await shell("dev help exec", ROOT);
  const [, count = "", bytes = ""] = /at most (\d+), ([\d,]+) bytes together/.exec(help) ?? [];
  const start = read(join(ROOT, "docs/start.md"));
  expect(start).toContain(`at most ${count} images, of ${bytes} bytes together`);
});

test("a file of sub-agents that is wrong is named by `dev doctor`, and no session begins", async () => {
  configure();
  const project = mkdtempSync(join(person.home, "broken-"));
  mkdirSync(join(project, ".dev/agents"), { recursive: true });
  mkdirSync(join(project, ".agents/agents"), { recursive: true });
  writeFileSync(join(project, ".dev/agents/a.md"), "no fields");
  writeFileSync(join(project, ".dev/agents/b.md"), "x".repeat(70_000));
  writeFileSync(join(project, ".agents/agents/c.md"), "no fields either");
  const checked = await shell("dev doctor", project);
  expect(checked.code).toBe(1);
  expect(checked.output).toMatch(/✗ sub-agents +\S+a\.md: it must begin with fields/);
  expect(checked.output).toMatch(/✗ sub-agents +\S+b\.md: it has over 65536 bytes/);
  expect(checked.output).toMatch(/! sub-agents +\S+c\.md is passed over: it must begin/);
  const ran = await shell('dev exec "x"', project);
  expect(ran.code).toBe(2);
  for (const name of ["a.md", "b.md", "c.md"]) expect(ran.output).toContain(name);
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
