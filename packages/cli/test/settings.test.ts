import { execFileSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toJsonSchema } from "@valibot/to-json-schema";
import { afterEach, beforeEach, expect, test } from "vitest";
import { findHome, type Home } from "../src/home.ts";
import { loadSettings, type Settings } from "../src/settings.ts";
import { SETTINGS_LIMIT_BYTES, settingsSchema } from "../src/settings-file.ts";
import type { Terminal } from "../src/terminal.ts";
import { vendorOptions } from "../src/world.ts";

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
const projects = (text: string, below = "."): void => {
  mkdirSync(join(project(), below, ".dev"), { recursive: true });
  writeFileSync(join(project(), below, ".dev/config.toml"), text);
};

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
  [
    "[providers.x]\nwire = 'openai-chat'\nbase_url = 'http://me:pw@a/v1'",
    "no user and no password",
  ],
  ["[providers.x]\nwire = 'openai-chat'\nbase_url = 'http://a/v1?key=b'", "no `?query`"],
  ["[providers.__proto__]\nwire = 'openai-chat'\nbase_url = 'http://a'", "providers.__proto__: "],
  ["[providers.constructor]\nwire = 'openai-chat'", "providers.constructor: "],
  ["[[policy.rules]]\ndecision = 'deny'\npaths = ['[']", 'no path can match "["'],
  ["[[policy.rules]]\ndecision = 'deny'\npaths = ['a', '/etc/**']", "no `/` in front"],
  ["model = ", "line 1, column "],
  ["[limits]\nmodel_calls_per_turn = 0", "limits.model_calls_per_turn: "],
  ["[limits]\ncost_per_session = 0", "limits.cost_per_session: "],
  ["[limits]\ncompact_percent = 101", "limits.compact_percent: "],
  ["[limits]\nagent_depth = -1", "limits.agent_depth: "],
  ["[models.nameless]\nimages = true", "models.nameless: a model is written provider/model"],
  ["[models.'a/b']\nprice = 3", 'unknown key "models.a/b.price"'],
  ["[models.'a/b']\ninput_price = -1", "models.a/b.input_price: "],
  ["[models.'a/b']\nimages = 'yes'", "models.a/b.images: "],
  ["[models.'a/b']\ninput_price = 1", 'models."a/b": it takes input_price and output_price'],
  ["[models.'a/b']\noutput_price = 0", 'models."a/b": it takes input_price and output_price'],
  ["[models.'a/b']\ncached_input_price = 1", 'models."a/b": cached_input_price is nothing without'],
  ["[models.'a/b']\nlong_over_tokens = 9", 'models."a/b": long_over_tokens is nothing without'],
  [
    "[models.'a/b']\nwindow_tokens = 8\noutput_tokens = 9",
    "output_tokens, 9, is over its window of 8",
  ],
  ["[models.'openai/gpt-5.5']\noutput_tokens = 9000000", "is over its window of 922000"],
  [
    `${PROVIDER}[models.'lcoal/b']\nimages = true`,
    'models."lcoal/b": there is no provider "lcoal"',
  ],
  ["[models.'toString/b']\nimages = true", 'there is no provider "toString"'],
])("settings that say %j are refused with what is wrong", (text, said) => {
  user(text);
  const loaded = loadSettings(home, project());
  expect(loaded.ok).toBe(false);
  if (loaded.ok) return;
  expect(loaded.fault).toMatchObject({ code: "config", subject: home.config });
  expect(loaded.fault.message).toContain(said);
});

test("the provider of a model may be named in another file, and the figures of one that is known stand alone", () => {
  managed("[models.'local/a']\nwindow_tokens = 8\noutput_tokens = 8");
  expect(loadSettings(home, project())).toMatchObject({
    ok: false,
    fault: { subject: home.managed },
  });
  user(PROVIDER);
  expect(settings().models).toEqual({ "local/a": { windowTokens: 8, outputTokens: 8 } });
  // A window may be made smaller than what an answer may have, to shorten conversations early.
  user(`${PROVIDER}[models.'openai/gpt-5.5']\nwindow_tokens = 1000\ncached_input_price = 0`);
  expect(settings().models).toMatchObject({ "openai/gpt-5.5": { windowTokens: 1000 } });
});

test("a project may not name providers, base URLs, keys or prices, nor take confinement away", () => {
  const cheap = "[models.'openai/gpt-5.5']\ninput_price = 0\noutput_price = 0";
  const service = "[kai]\ndecisions = 'http://127.0.0.1:1/v1'";
  const other = "[fix]\nfallback_model = 'openai/gpt-5.5'";
  for (const text of [
    PROVIDER,
    "[local]\nconfine = false",
    "[providers]\n",
    cheap,
    service,
    other,
  ]) {
    projects(text);
    const loaded = loadSettings(home, project());
    expect(loaded.ok).toBe(false);
    if (!loaded.ok) expect(loaded.fault.message).toContain("may not be set by a project");
  }
});

test("a decision service is a person's to name, and an administrator's stands", () => {
  expect(settings().kai).toBe(null);
  user("[kai]\ndecisions = 'http://127.0.0.1:1/v1'\nenv_key = 'DECISION_KEY'");
  const own = { decisions: "http://127.0.0.1:1/v1", env_key: "DECISION_KEY" };
  expect(settings().kai).toEqual(own);
  managed("[kai]\ndecisions = 'https://decisions.example/v1'");
  expect(settings().kai).toEqual({ decisions: "https://decisions.example/v1" });
});

test("a project may ask and deny, and not allow", () => {
  projects("[[policy.rules]]\ndecision = 'deny'\nops = ['exec']");
  expect(settings(join(project(), "src")).rules).toEqual([
    { decision: "deny", ops: ["exec"], layer: "project", below: "src" },
  ]);
  projects("[[policy.rules]]\ndecision = 'allow'");
  const loaded = loadSettings(home, project());
  expect(loaded.ok).toBe(false);
  if (!loaded.ok) expect(loaded.fault.message).toContain("not allow");
});

test("what is wrong with a base URL is said without the password that it holds", () => {
  user("[providers.x]\nwire = 'openai-chat'\nbase_url = 'http://me:hunter2@a/v1'");
  const loaded = loadSettings(home, project());
  expect(JSON.stringify(loaded)).not.toContain("hunter2");
});

test("all files up to the root of the repository count, and the nearest is the first to say", () => {
  projects("model = 'a/root'\neffort = 'low'\n[limits]\ncalls_per_reply = 3");
  projects("model = 'a/near'\n[limits]\ncalls_per_reply = 9", "src");
  expect(settings(join(project(), "src"))).toMatchObject({
    model: "a/near",
    effort: "low",
    limits: { callsPerReply: 3 },
    files: [join(project(), ".dev/config.toml"), join(project(), "src/.dev/config.toml")],
  });
  expect(settings().model).toBe("a/root");
});

test("rules of all files add up, each with the way from its directory to the workspace", () => {
  projects("[[policy.rules]]\ndecision = 'deny'\npaths = ['src/a/secret/**']");
  projects("[[policy.rules]]\ndecision = 'ask'\npaths = ['b/**']", "src");
  projects("[[policy.rules]]\ndecision = 'ask'\npaths = ['c/**']", "src/a");
  const loaded = settings(join(project(), "src/a"));
  expect(loaded.rules.map(({ paths, below }) => [paths?.[0], below])).toEqual([
    ["src/a/secret/**", "src/a"],
    ["b/**", "a"],
    ["c/**", undefined],
  ]);
});

test("a worktree or a submodule, where .git is a file, is a root of its own", () => {
  projects("model = 'a/outer'");
  projects("model = 'a/inner'", "module");
  writeFileSync(join(project(), "module/.git"), "gitdir: ../.git/modules/module\n");
  mkdirSync(join(project(), "module/src"));
  const inner = settings(join(project(), "module/src"));
  expect(inner.files).toEqual([join(project(), "module/.dev/config.toml")]);
});

test("outside a repository only the directory's own file counts", () => {
  rmSync(join(project(), ".git"), { recursive: true });
  projects("model = 'a/above'");
  projects("effort = 'low'", "src");
  expect(settings(join(project(), "src"))).toMatchObject({ model: null, effort: "low" });
  expect(settings(join(project(), ".dev")).files).toEqual([]);
});

test.each([
  ["a FIFO", (path: string) => execFileSync("mkfifo", [path]), "not a regular file"],
  ["an endless device", (path: string) => symlinkSync("/dev/zero", path), "not a regular file"],
  ["a directory", (path: string) => mkdirSync(path), "not a regular file"],
  ["a link to itself", (path: string) => symlinkSync(path, path), "cannot be read"],
  [
    "a file past the limit",
    (path: string) => {
      writeFileSync(path, "");
      truncateSync(path, SETTINGS_LIMIT_BYTES + 1);
    },
    "longer than",
  ],
])("a project whose settings are %s is refused at once, and the path said", (_, make, said) => {
  const path = join(project(), ".dev/config.toml");
  make(path);
  const loaded = loadSettings(home, project());
  expect(loaded.ok).toBe(false);
  if (loaded.ok) return;
  expect(loaded.fault).toMatchObject({ code: "config", subject: path });
  expect(loaded.fault.message).toContain(said);
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

test("a limit in money is in dollars, and that of agents may be none at all", () => {
  managed("[limits]\ncost_per_session = 12.345678\nagent_depth = 0");
  user("[limits]\ncost_per_session = 100\nagent_depth = 3\nagent_count = 2\ncompact_percent = 90");
  expect(settings().limits).toEqual({
    costMicroUsdPerSession: 12_345_678,
    agentDepth: 0,
    agentCount: 2,
    compactPercent: 90,
  });
  projects("[limits]\ncost_per_session = 0.5\nagent_count = 64\ncompact_percent = 95");
  expect(settings().limits).toMatchObject({
    costMicroUsdPerSession: 500_000,
    agentCount: 2,
    compactPercent: 90,
  });
  managed("");
  user("");
  expect(settings().limits).toEqual({
    costMicroUsdPerSession: 500_000,
    agentCount: 8,
    compactPercent: 80,
  });
});

test("figures of models add up field by field, and an administrator's are not replaced", () => {
  managed("[models.'openai/gpt-5.5']\ninput_price = 4.5");
  user(`[models.'openai/gpt-5.5']
input_price = 0
images = false
${PROVIDER}[models."local/a"]
window_tokens = 8192
images = true
reasoning = "none"
input_price = 0
output_price = 0`);
  expect(settings().models).toEqual({
    "openai/gpt-5.5": { inputPrice: 4.5, images: false },
    "local/a": {
      windowTokens: 8192,
      images: true,
      reasoning: "none",
      inputPrice: 0,
      outputPrice: 0,
    },
  });
});

test("which model the person named is known, whatever a project chooses", () => {
  user("model = 'a/mine'");
  projects("model = 'b/theirs'");
  expect(settings()).toMatchObject({ model: "b/theirs", ownModel: "a/mine" });
  user("");
  expect(settings()).toMatchObject({ model: "b/theirs", ownModel: null });
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

test("the settings that the guide shows can be read", () => {
  const guide = readFileSync(new URL("../../../docs/start.md", import.meta.url), "utf8");
  const blocks = [...guide.matchAll(/```toml\n(.*?)```/gs)].map(([, text]) => text ?? "");
  // They are parts of one file, as a reader puts it together.
  user(blocks.join("\n"));
  expect(settings().files).toEqual([home.config]);
  expect(blocks.length).toBeGreaterThan(2);
});

test("what the guide to clusters shows can be read, and no project may say it", () => {
  const guide = readFileSync(
    new URL("../../../docs/guides/kubernetes.md", import.meta.url),
    "utf8",
  );
  const [, block = ""] = /```toml\n(.*?)```/s.exec(guide) ?? [];
  user(`${block}runtime_class = ""`);
  expect(settings().programs.kubernetes).toMatchObject({
    image: "registry.example.com/dev-cell:1",
    server: "https://dev.example.com",
    serverAddress: "203.0.113.7",
    runtimeClass: "",
  });
  user("");
  projects(block);
  const loaded = loadSettings(home, project());
  expect(loaded).toMatchObject({ fault: { message: expect.stringContaining("kubernetes") } });
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

const NETWORK = `
[network.secrets.forge]
env_key = "FORGE_TOKEN"
as = "basic"
user = "robot"
[[network.allow]]
host = "git.example.com"
paths = ["/team"]
secret = "forge"
`;

test("what cells may reach is read, the administrator's before the person's", () => {
  managed(NETWORK);
  user(
    '[[network.allow]]\nhost = "*.example.org"\nports = [80, 443]\n[network.secrets.x]\nfile = "/x"',
  );
  expect(settings().network.allow).toEqual([
    {
      ...{ host: "git.example.com", ports: [443], paths: ["/team"], methods: [], addresses: [] },
      push: false,
      secret: {
        from: { kind: "variable", name: "FORGE_TOKEN" },
        as: { kind: "basic", user: "robot" },
      },
    },
    {
      ...{ host: "*.example.org", ports: [80, 443], paths: [], methods: [], addresses: [] },
      ...{ push: false, secret: null },
    },
  ]);
});

test("a secret of the administrator's is not replaced by one of the same name", () => {
  managed(NETWORK);
  user('[network.secrets.forge]\nenv_key = "OTHER"');
  expect(settings().network.secrets.forge?.from).toEqual({ kind: "variable", name: "FORGE_TOKEN" });
});

test.each([
  ['[[network.allow]]\nhost = "*"', 'network.allow "*": "*" is no host'],
  ['[[network.allow]]\nhost = "a.example"\nsecret = "none"', 'there is no secret "none"'],
  ['[[network.allow]]\nhost = "a.example"\nsecret = "constructor"', "there is no secret"],
  ['[[network.allow]]\nhost = "a.example"\npaths = ["a"]', "begins with a slash"],
  ['[[network.allow]]\nhost = "a.example"\nports = [0]', "network.allow.0.ports.0: "],
  ['[[network.allow]]\nhost = "a.example"\nport = 1', 'unknown key "network.allow.0.port"'],
  ["[network.secrets.a]", "one of the two"],
  ['[network.secrets.a]\nenv_key = "A"\nfile = "/a"', "one of the two"],
  ['[network.secrets.a]\nenv_key = "ghp-123"', "not the key itself"],
  ['[network.secrets.a]\nenv_key = "A"\nas = "basic"', "`user` belongs to"],
  ['[network.secrets.a]\nenv_key = "A"\nheader = "X"', "`header` belongs to"],
  ['[network]\ncertificates = ["a.pem"]', "absolute path"],
])("of the network, %s is wrong", (text, words) => {
  user(text);
  expect(loadSettings(home, project())).toMatchObject({
    ok: false,
    fault: { message: expect.stringContaining(words) },
  });
});

test("a project cannot open the network", () => {
  projects(NETWORK);
  expect(loadSettings(home, project())).toMatchObject({
    fault: { message: expect.stringContaining('"network" may not be set by a project') },
  });
});

test("a file with a secret is hidden from cells that see the rest of the machine", async () => {
  user('[network.secrets.x]\nfile = "/home/me/.token"');
  const terminal = { env: {} } as Terminal;
  const { masked } = await vendorOptions(home, settings(), terminal);
  expect(masked).toContain("/home/me/.token");
});
