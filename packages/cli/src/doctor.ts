import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { resolve } from "node:path";
import { type CellReport, openVendor, probeCells, VENDORS } from "@dev/cell";
import { type Fault, never, type Result } from "@dev/protocol";
import { prelude } from "@dev/session";
import type { Command } from "./args.ts";
import { kindsOf } from "./config.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import type { Home } from "./home.ts";
import { type Network, NO_NETWORK } from "./network-file.ts";
import { checkModel, providerNamed } from "./provider.ts";
import { printable } from "./say.ts";
import { loadSettings, type Settings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";
import { VERSION } from "./version.ts";
import { openStore, vendorOptions } from "./world.ts";

/** One thing that was looked at. `warning`: it works, and not as well as it could. */
type Check = {
  readonly name: string;
  readonly state: "ok" | "warning" | "failed";
  readonly text: string;
  readonly mend: string;
};

/** How long a model's endpoint may take to answer at all. */
const ENDPOINT_LIMIT_MS = 3000;

/** `dev doctor`: looks at this machine and the settings, by trying, and says what to mend. */
export async function doctor(
  command: Extract<Command, { kind: "doctor" }>,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  let failed = false;
  for await (const check of checks(resolve(command.directory), home, terminal)) {
    failed ||= check.state === "failed";
    terminal.print(command.json ? `${JSON.stringify(check)}\n` : asText(check));
  }
  return failed ? EXIT.failed : EXIT.complete;
}

async function* checks(directory: string, home: Home, terminal: Terminal): AsyncGenerator<Check> {
  yield ok(
    "dev",
    `${VERSION}, Node.js ${process.versions.node}, ${process.platform} ${process.arch}`,
  );
  const store = await openStore(home);
  yield store.ok ? ok("state", home.state) : bad("state", store.fault);
  if (store.ok) store.value.close();
  const settings = loadSettings(home, directory);
  if (settings.ok) {
    yield ok("settings", settings.value.files.join(", ") || `none; yours would be ${home.config}`);
    yield await modelCheck(settings.value, terminal);
  } else yield bad("settings", settings.fault);
  yield* agentChecks(directory, settings.ok ? settings.value : null, terminal.env);
  yield gitCheck();
  const chosen = settings.ok
    ? settings.value
    : { confine: true, programs: {}, network: NO_NETWORK };
  if (settings.ok) yield* networkChecks(settings.value.network, terminal);
  const { signal, release } = terminal.interrupts();
  const options = await vendorOptions(home, chosen, terminal);
  for (const name of Object.keys(VENDORS)) {
    const vendor = openVendor(name, options, signal);
    if (!vendor.ok) continue;
    const chance = { nowMs: terminal.nowMs, random: (byteCount: number) => randomBytes(byteCount) };
    for (const report of await probeCells([vendor.value], chance, signal)) yield cellCheck(report);
  }
  release();
}

async function modelCheck(settings: Settings, terminal: Terminal): Promise<Check> {
  const { model } = settings;
  if (model === null) return warn("model", "none is configured", "see `dev exec` or docs/start.md");
  const known = checkModel(model, settings, terminal.env, [settings.ownModel]);
  if (!known.ok) return bad("model", known.fault);
  const provider = providerNamed(model.slice(0, model.indexOf("/")), settings);
  const url = provider?.base_url ?? "";
  const said = await knock(url);
  return said === null
    ? ok("model", `${model} at ${url}`)
    : warn("model", `${model}: ${url} does not answer: ${said}`, "start it, or mend base_url");
}

/** What a project says to its agents, a check for each file that is wrong. */
function* agentChecks(
  directory: string,
  settings: Settings | null,
  env: NodeJS.ProcessEnv,
): Generator<Check> {
  const told = prelude(directory);
  if (!told.ok) return yield bad("instructions", told.fault);
  const kinds = kindsOf(directory, (model) =>
    settings === null ? agreed : checkModel(model, settings, env, [settings.ownModel]),
  );
  if (!kinds.ok) return yield bad("sub-agents", kinds.fault);
  const { usable, broken, passedOver } = kinds.value;
  for (const fault of broken) yield bad("sub-agents", fault);
  for (const { subject, message, mend } of passedOver) {
    yield warn("sub-agents", `${subject} is passed over: ${message}`, mend);
  }
  if (usable.length > 0) yield ok("sub-agents", usable.map(({ name }) => name).join(", "));
}

/** Without settings there is nothing to hold a model against. */
const agreed: Result<void> = { ok: true, value: undefined };

/** Whether anything answers HTTP there; no key is sent. Null when it does. */
function knock(url: string): Promise<string | null> {
  return new Promise((settle) => {
    const send = url.startsWith("https:") ? httpsRequest : httpRequest;
    const request = send(`${url}/models`, { timeout: ENDPOINT_LIMIT_MS }, (response) => {
      response.resume();
      settle(null);
    });
    request.on("timeout", () => request.destroy(new Error(`nothing in ${ENDPOINT_LIMIT_MS} ms`)));
    request.on("error", (error) => settle(error.message || String(error)));
    request.end();
  });
}

/** What cells would reach, and whether the secrets of it are to be had; none is shown. */
async function* networkChecks(network: Network, { env }: Terminal): AsyncGenerator<Check> {
  const { allow } = network;
  if (allow.length === 0) {
    return yield ok("network", "cells that are confined reach nothing; see docs/guides/network.md");
  }
  const { Egress, EGRESS_LIMITS, readCredential } = await import("@dev/cell");
  const seams = {
    ...{ resolve: async () => [], variable: (name: string) => env[name], now: () => 0 },
    ...{ onRequest: () => undefined, limits: EGRESS_LIMITS },
  };
  const opened = await Egress.open(null, network, seams);
  yield opened.ok ? ok("network", allow.map(allowText).join("\n")) : bad("network", opened.fault);
  for (const [name, secret] of Object.entries(network.secrets)) {
    const read = await readCredential(secret, seams.variable);
    if (!read.ok)
      yield warn("network", `secret ${name}: ${read.fault.message}`, read.fault.subject);
  }
}

function allowText({
  host,
  ports,
  paths,
  methods,
  push,
  secret,
}: Network["allow"][number]): string {
  const parts = [
    `${host}:${ports.join(",")}`,
    ...paths,
    methods.join(","),
    secret === null ? "" : `with a secret${push ? ", also to push" : ""}`,
  ];
  return parts.filter((part) => part !== "").join(" ");
}

function gitCheck(): Check {
  const ran = spawnSync("git", ["--version"], { encoding: "utf8" });
  return ran.status === 0
    ? ok("git", ran.stdout.trim())
    : warn("git", "git does not run", "install git: without it a session cannot use it");
}

function cellCheck(report: CellReport): Check {
  const name = `cell ${report.vendor}`;
  switch (report.kind) {
    case "missing":
      return { name, state: "warning", text: report.fault.message, mend: report.fault.mend };
    case "works": {
      const own = report.vendor === "gvisor" ? ", with a kernel of its own" : "";
      const text = `${BOUNDARIES[report.boundary]}${own}; started in ${Math.round(report.startMs)} ms`;
      const { weaker } = report;
      return weaker === undefined
        ? ok(name, text)
        : warn(name, `${text}; ${weaker.message}`, weaker.mend);
    }
    default:
      return never(report);
  }
}

const BOUNDARIES = {
  none: "nothing confines its commands, and no rule of the network can hold them",
  process: "commands are confined to the workspace, without a network of their own",
  cell: "an environment of its own",
} as const;

function ok(name: string, text: string): Check {
  return { name, state: "ok", text, mend: "" };
}

function warn(name: string, text: string, mend: string): Check {
  return { name, state: "warning", text, mend };
}

function bad(name: string, { subject, message, mend }: Fault): Check {
  const text = subject === "" ? message : `${subject}: ${message}`;
  return { name, state: "failed", text, mend };
}

/** The longest name: what is said of each stands in one column. */
const NAME_WIDTH = "cell bubblewrap".length;

function asText({ name, state, text, mend }: Check): string {
  const mark = state === "ok" ? "✓" : state === "warning" ? "!" : "✗";
  const lines = printable(mend === "" ? text : `${text}\n${mend}`).split("\n");
  return `${mark} ${name.padEnd(NAME_WIDTH)} ${lines.join(`\n${" ".repeat(NAME_WIDTH + 3)}`)}\n`;
}
