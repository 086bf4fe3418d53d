import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toJsonSchema } from "@valibot/to-json-schema";
import { afterEach, beforeEach, expect, test } from "vitest";
import { findHome, type Home } from "../src/home.ts";
import { loadSettings, type Settings, settingsSchema } from "../src/settings.ts";

let root: string;
let home: Home;
const project = (): string => join(root, "project");

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "settings-"));
  mkdirSync(join(project(), ".git"), { recursive: true });
  mkdirSync(join(project(), ".dev"), { recursive: true });
  mkdirSync(join(project(), "src"), { recursive: true });
  writeFileSync(join(project(), ".git/HEAD"), "ref: refs/heads/main\n");
  home = { ...findHome({ DEV_HOME: root }), managed: join(root, "managed.toml") };
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const user = (text: string): void => writeFileSync(home.config, text);
const managed = (text: string): void => writeFileSync(home.managed, text);
const projects = (text: string): void => writeFileSync(join(project(), ".dev/config.toml"), text);

function settings(directory = project()): Settings {
  const loaded = loadSettings(home, directory);
  if (!loaded.ok) throw new Error(`${loaded.fault.subject}: ${loaded.fault.message}`);
  return loaded.value;
}

const PROVIDER = `[providers.local]\nwire = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\n`;

test("no file at all is no settings: no model and no provider is assumed", () => {
  expect(settings()).toMatchObject({ model: null, providers: {}, rules: [], files: [] });
});

test("the settings of the README are read", () => {
  user(`model = "local/some-model"\n${PROVIDER}env_key = "LOCAL_API_KEY" # a comment\n`);
  expect(settings()).toMatchObject({
    model: "local/some-model",
    providers: { local: { base_url: "http://127.0.0.1:1/v1", env_key: "LOCAL_API_KEY" } },
  });
});

test.each([
  ["modle = 'a/b'", 'unknown key "modle"'],
  [`${PROVIDER}urls = 1`, 'unknown key "providers.local.urls"'],
  ["[[policy.rules]]\ndecision = 'deny'\npath = ['a']", 'unknown key "policy.rules.0.path"'],
  ["model = 'nameless'", "provider/model"],
  ["model = 3", "model: "],
  ["[providers.x]\nwire = 'soap'\nbase_url = 'http://a'", "providers.x.wire: "],
  ["[providers.x]\nwire = 'openai-chat'", "providers.x.base_url: "],
  ["[providers.x]\nwire = 'openai-chat'\nbase_url = 'ftp://a'", "http://"],
  [`${PROVIDER}env_key = "sk-abc-123"`, "not the key itself"],
  ["model = ", "line 1, column "],
  ["[limits]\nmodel_calls_per_turn = 0", "limits.model_calls_per_turn: "],
])("settings that say %j are refused with what is wrong", (text, said) => {
  user(text);
  const loaded = loadSettings(home, project());
  expect(loaded.ok).toBe(false);
  if (loaded.ok) return;
  expect(loaded.fault).toMatchObject({ code: "config", subject: home.config });
  expect(loaded.fault.message).toContain(said);
});

test("a project may not name providers, base URLs or keys, nor take confinement away", () => {
  for (const text of [PROVIDER, "[local]\nconfine = false", "[providers]\n"]) {
    projects(text);
    const loaded = loadSettings(home, project());
    expect(loaded.ok).toBe(false);
    if (!loaded.ok) expect(loaded.fault.message).toContain("may not be set by a project");
  }
});

test("a project may ask and deny, and not allow", () => {
  projects("[[policy.rules]]\ndecision = 'deny'\nops = ['exec']");
  expect(settings(join(project(), "src")).rules).toEqual([
    { decision: "deny", ops: ["exec"], layer: "project" },
  ]);
  projects("[[policy.rules]]\ndecision = 'allow'");
  const loaded = loadSettings(home, project());
  expect(loaded.ok).toBe(false);
  if (!loaded.ok) expect(loaded.fault.message).toContain("not allow");
});

test("an administrator's provider is not replaced, and their denial stays among the rules", () => {
  managed(`${PROVIDER}[[policy.rules]]\ndecision = 'deny'\nargv = ['git', 'push']`);
  user(
    `[providers.local]\nwire = "openai-chat"\nbase_url = "http://127.0.0.1:2/v1"\n[[policy.rules]]\ndecision = 'allow'`,
  );
  const loaded = settings();
  expect(loaded.providers.local?.base_url).toBe("http://127.0.0.1:1/v1");
  expect(loaded.rules.map((rule) => [rule.layer, rule.decision])).toEqual([
    ["managed", "deny"],
    ["user", "allow"],
  ]);
});

test("a limit is only narrowed: by a project, from the default", () => {
  user("[limits]\nmodel_calls_per_turn = 1000");
  expect(settings().limits.modelCallsPerTurn).toBe(1000);
  projects("[limits]\nmodel_calls_per_turn = 5000\ncalls_per_reply = 5000");
  expect(settings().limits).toMatchObject({ modelCallsPerTurn: 1000, callsPerReply: 64 });
  projects("[limits]\nmodel_calls_per_turn = 3");
  expect(settings().limits.modelCallsPerTurn).toBe(3);
});

test("a model's silence is in seconds, and an administrator's is only narrowed", () => {
  expect(settings().modelSilenceMs).toBe(null);
  user("[limits]\nmodel_silence_seconds = 20");
  expect(settings().modelSilenceMs).toBe(20_000);
  managed("[limits]\nmodel_silence_seconds = 10");
  expect(settings().modelSilenceMs).toBe(10_000);
  user("[limits]\nmodel_silence_seconds = 5");
  expect(settings().modelSilenceMs).toBe(5_000);
});

test("a file that cannot be read is said, and not taken for none", () => {
  mkdirSync(home.config);
  const loaded = loadSettings(home, project());
  expect(loaded.ok).toBe(false);
  if (!loaded.ok) expect(loaded.fault.subject).toBe(home.config);
});

test("the published schema is that of the code", () => {
  const path = new URL("../../../docs/reference/config.schema.json", import.meta.url);
  const schema = {
    title: "Dev's settings",
    ...toJsonSchema(settingsSchema, { errorMode: "ignore" }),
  };
  const text = `${JSON.stringify(schema, null, 2)}\n`;
  if (process.env.UPDATE_GOLDEN) writeFileSync(path, text);
  expect(readFileSync(path, "utf8")).toBe(text);
});

test("homes are where DEV_HOME and the XDG directories say", () => {
  expect(findHome({ HOME: "/h" })).toMatchObject({
    config: "/h/.config/dev/config.toml",
    state: "/h/.local/state/dev",
  });
  const xdg = { HOME: "/h", XDG_CONFIG_HOME: "/c", XDG_STATE_HOME: "/s" };
  expect(findHome(xdg)).toMatchObject({ config: "/c/dev/config.toml", state: "/s/dev" });
  expect(findHome({ ...xdg, DEV_HOME: "/d" })).toMatchObject({
    config: "/d/config.toml",
    state: "/d",
  });
});
