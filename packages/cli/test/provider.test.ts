import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Fault, Result } from "@dev/protocol";
import { afterEach, beforeEach, expect, test } from "vitest";
import { checkConfig, configOf } from "../src/config.ts";
import { EXIT, exitOfFault } from "../src/exit.ts";
import { findHome, type Home } from "../src/home.ts";
import { checkModel, keyedProviders } from "../src/provider.ts";
import { loadSettings, type Settings } from "../src/settings.ts";

let root: string;
let home: Home;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "provider-"));
  mkdirSync(join(root, ".git"));
  home = { ...findHome({ DEV_HOME: root }), managed: join(root, "managed.toml") };
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function settings(user = "", project = ""): Settings {
  writeFileSync(home.config, user);
  write(".dev/config.toml", project);
  const loaded = loadSettings(home, root);
  if (!loaded.ok) throw new Error(loaded.fault.message);
  return loaded.value;
}

function write(path: string, text: string): void {
  mkdirSync(join(root, path, ".."), { recursive: true });
  writeFileSync(join(root, path), text);
}

const LOCAL = `[providers.local]\nwire = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\n`;
const KEYS = { OPENAI_API_KEY: "k1", ANTHROPIC_API_KEY: "k2" };

const passedOver: Fault[] = [];

/** The config of a new session of a model; null: of that which the settings name. */
function config(loaded: Settings, model: string | null = null, env: NodeJS.ProcessEnv = KEYS) {
  return configOf({
    model: model ?? loaded.model ?? "",
    directory: root,
    settings: loaded,
    env,
    chosen: [model, loaded.ownModel],
    onPassedOver: (fault) => passedOver.push(fault),
  });
}

function faultOf(result: Result<unknown>) {
  if (result.ok) throw new Error("no fault");
  return result.fault;
}

test("a model of a known provider needs its key in the environment, and nothing else", () => {
  const made = config(settings('model = "openai/gpt-5.5"'));
  expect(made.ok && made.value).toMatchObject({ windowTokens: 922_000, images: true });
  const fault = faultOf(config(settings('model = "openai/gpt-5.5"'), null, {}));
  expect(fault).toMatchObject({ code: "config", mend: "export OPENAI_API_KEY=…" });
  expect(keyedProviders(settings(), KEYS).openai).toMatchObject({
    baseUrl: "https://api.openai.com/v1",
    key: "k1",
    keySource: "OPENAI_API_KEY",
  });
});

test("a provider in settings takes the place of the known one of that name, whole", () => {
  const own = settings(`[providers.openai]\nwire = "openai-chat"\nbase_url = "http://127.0.0.1:9"`);
  expect(keyedProviders(own, KEYS).openai).toEqual({
    wire: "openai-chat",
    baseUrl: "http://127.0.0.1:9",
    key: null,
  });
  expect(config(own, "openai/gpt-5.5", {}).ok).toBe(true);
});

test("a project chooses among the providers that a person named, and no others", () => {
  const theirs = 'model = "anthropic/claude-sonnet-5-5"';
  const fault = faultOf(config(settings(LOCAL, theirs)));
  expect(fault).toMatchObject({ code: "config", subject: "anthropic/claude-sonnet-5-5" });
  expect(fault.message).toContain('a project chose provider "anthropic"');
  expect(config(settings(`model = "anthropic/claude-opus-5-5"\n${LOCAL}`, theirs)).ok).toBe(true);
  expect(config(settings(LOCAL, theirs), "anthropic/claude-sonnet-5-5").ok).toBe(true);
  expect(config(settings(LOCAL, 'model = "local/any"')).ok).toBe(true);
});

test("a kind of agent is asked of the session's model, or of one that can be asked", () => {
  write(".dev/agents/a.md", "---\nname: plain\ndescription: Always.\n---\nBe plain.\n");
  write(
    ".dev/agents/b.md",
    "---\nname: sharp\ndescription: Never.\nmodel: local/sharp\n---\nBe sharp.\n",
  );
  const known = `model = "local/dull"\n${LOCAL}[models."local/sharp"]\nwindow_tokens = 9000\n`;
  const made = config(settings(known));
  if (!made.ok) throw new Error(made.fault.message);
  expect(made.value.agents).toMatchObject([
    { name: "plain", model: "local/dull", windowTokens: 0, tools: null },
    { name: "sharp", model: "local/sharp", windowTokens: 9000 },
  ]);
  const spawn = made.value.tools.find(({ name }) => name === "spawn");
  expect(spawn?.description).toContain("- sharp: Never.");
  expect(checkConfig(made.value, settings(known), {}).ok).toBe(true);
  expect(faultOf(checkConfig(made.value, settings(), {})).message).toContain('"local"');

  write(".dev/agents/b.md", "---\nname: sharp\ndescription: Never.\nmodel: openai/x\n---\nBe.\n");
  const fault = faultOf(config(settings(known)));
  expect(fault.subject).toBe(join(root, ".dev/agents/b.md"));
  expect(fault.message).toContain('model openai/x: a project chose provider "openai"');
});

test("every file in .dev that is broken is named, whatever is wrong with it, as settings to mend", () => {
  write(".dev/agents/a.md", "no fields");
  write(".dev/agents/b.md", `---\nname: b\ndescription: B.\n---\n${"x".repeat(70_000)}`);
  write(".dev/agents/c.md", "---\nname: c\ndescription: C.\nmodel: openai/x\n---\nBe.\n");
  const fault = faultOf(config(settings(`model = "local/any"\n${LOCAL}`)));
  expect(fault).toMatchObject({ code: "config", subject: join(root, ".dev/agents/a.md") });
  expect(exitOfFault(fault)).toBe(EXIT.usage);
  expect(fault.message).toContain(`; ${join(root, ".dev/agents/b.md")}: it has over 65536 bytes`);
  expect(fault.message).toContain(`; ${join(root, ".dev/agents/c.md")}: model openai/x: a project`);

  for (let at = 0; at < 40; at++) write(`.dev/agents/d${at}.md`, "no fields");
  const many = faultOf(config(settings(`model = "local/any"\n${LOCAL}`)));
  expect(many.message).toMatch(/; and 27 more$/);
});

test("instructions that are too large are settings to mend as well", () => {
  write("AGENTS.md", "x".repeat(200_000));
  const fault = faultOf(config(settings(`model = "local/any"\n${LOCAL}`)));
  expect(fault).toMatchObject({ code: "config", subject: join(root, "AGENTS.md") });
});

test("a kind in .agents whose model may not be used is passed over, and that is told", () => {
  passedOver.length = 0;
  write(".agents/agents/c.md", "---\nname: far\ndescription: Never.\nmodel: openai/x\n---\nBe.\n");
  const made = config(settings(`model = "local/any"\n${LOCAL}`));
  expect(made.ok && made.value.agents).toEqual([]);
  expect(passedOver).toMatchObject([{ subject: join(root, ".agents/agents/c.md") }]);
});

test("where no agent may be nested, none is offered", () => {
  const made = config(settings(`model = "local/m"\n${LOCAL}[limits]\nagent_depth = 0`));
  expect(made.ok && made.value.tools.map(({ name }) => name)).not.toContain("spawn");
});

test("a limit in money needs a price, be it nothing", () => {
  const limited = `model = "local/m"\n${LOCAL}[limits]\ncost_per_session = 1\n`;
  const fault = faultOf(config(settings(limited)));
  expect(fault).toMatchObject({ code: "config", subject: "local/m" });
  expect(fault.mend).toContain('[models."local/m"]');
  const free = `${limited}[models."local/m"]\ninput_price = 0\noutput_price = 0\n`;
  const made = config(settings(free));
  expect(made.ok && made.value.limits.costMicroUsdPerSession).toBe(1_000_000);
  if (made.ok) expect(checkConfig(made.value, settings(limited), {}).ok).toBe(false);
  expect(config(settings("[limits]\ncost_per_session = 1"), "openai/gpt-5.5").ok).toBe(true);
});

test.each(["model", "/model", "openai/", ""])("%j is not the name of a model", (name) => {
  const fault = faultOf(checkModel(name, settings(), KEYS, [name]));
  expect(fault.message).toBe("a model is written provider/model");
});

test("a provider that nobody knows is said, with those that there are", () => {
  const fault = faultOf(checkModel("toString/x", settings(LOCAL), KEYS, ["toString/x"]));
  expect(fault.message).toBe('there is no provider "toString"');
  expect(fault.mend).toMatch(
    /configured: local; known: anthropic, openai, .*\[providers\.toString\]/,
  );
});
