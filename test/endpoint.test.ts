import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { type FixedStep, type ScriptedFault, startScripted } from "@dev/model/scripted";
import { describe, expect, test } from "vitest";
import { checkConversations, checkLedger, ledgerOf } from "./support/crash-task.ts";
import { type Desk, openDesk, type Ran, read } from "./support/dev.ts";

const KEY = "sk-secret-0123456789abcdef";
const ENV = { env: { THE_KEY: KEY } };
const TIME_LIMIT_MS = 60_000;

/** What an endpoint does instead of answering, and what is then said of it. */
type Case = {
  readonly name: string;
  readonly fault: ScriptedFault;
  /** How often it is asked before it is given up. */
  readonly tries: 1 | 4;
  readonly code: string;
  readonly says: readonly RegExp[];
};

const half = { text: "half of an answer that goes on for a while" };
const halfCall = { tool: "write", arguments: { path: "half.txt", text: "x" } };
const status = (
  code: number,
  message: string,
  type = "application/json",
): Extract<ScriptedFault, { kind: "status" }> => ({
  kind: "status",
  status: code,
  headers: { "content-type": type },
  body: type === "application/json" ? JSON.stringify({ error: { message } }) : message,
});

const CASES: readonly Case[] = [
  {
    name: "drops every connection",
    fault: { kind: "refuse" },
    tries: 4,
    code: "unreachable",
    says: [/no connection \(ECONNRESET\) \(tried 4 times\)/, /see whether it runs/],
  },
  {
    name: "never answers",
    fault: { kind: "hang" },
    tries: 4,
    code: "silent",
    says: [/no answer began within 1 s \(tried 4 times\)/, /see whether the provider is well/],
  },
  {
    name: "stops in the middle of an answer",
    fault: { kind: "hang_after", bytes: 200, reply: half },
    tries: 1,
    code: "silent",
    says: [/the answer stopped coming for 1 s/, /see whether the provider is well/],
  },
  {
    name: "cuts the stream",
    fault: { kind: "cut", bytes: 200, reply: half },
    tries: 1,
    code: "cut",
    says: [/the stream ended before the answer did/, /what had arrived is no answer/],
  },
  {
    name: "sends half a call",
    fault: { kind: "half_call", call: halfCall, end: "cut" },
    tries: 1,
    code: "cut",
    says: [/the stream ended before the answer did/],
  },
  {
    name: "sends garbage",
    fault: { kind: "garbage" },
    tries: 1,
    code: "garbled",
    says: [/the answer is not of the API that the settings name/, /check the base URL/],
  },
  {
    name: "is a proxy that wants a login",
    fault: status(200, "<html><body>Please log in</body></html>", "text/html"),
    tries: 1,
    code: "garbled",
    says: [/the answer is not of the API that the settings name/, /check the base URL/],
  },
  {
    name: "is behind a proxy whose upstream is gone",
    fault: status(502, "<html><body>Bad gateway</body></html>", "text/html"),
    tries: 4,
    code: "overloaded",
    says: [/HTTP 502 \(tried 4 times\)/, /try again later/],
  },
  {
    name: "redirects",
    fault: { kind: "status", status: 302, headers: { location: "https://elsewhere.invalid/in" } },
    tries: 1,
    code: "config",
    says: [/HTTP 302: a redirect, which is not followed: https:\/\/elsewhere/, /set the base URL/],
  },
  {
    name: "refuses the key, and shows it",
    fault: status(401, `no such key: ${KEY}`),
    tries: 1,
    code: "unauthorized",
    says: [/HTTP 401: no such key: \[key\]/, /set THE_KEY to a key of provider local/],
  },
  {
    name: "refuses the request, and says why",
    fault: status(400, "unknown model m"),
    tries: 1,
    code: "bad_request",
    says: [/HTTP 400: unknown model m/, /check the model's name/],
  },
  {
    name: "fails",
    fault: status(500, "out of memory"),
    tries: 4,
    code: "overloaded",
    says: [/HTTP 500: out of memory \(tried 4 times\)/, /try again later/],
  },
  {
    name: "is asked too often",
    fault: status(429, "slow down"),
    tries: 4,
    code: "rate_limited",
    says: [/HTTP 429: slow down \(tried 4 times\)/, /try again later/],
  },
  {
    name: "reports an error in the middle of its answer",
    fault: {
      kind: "status",
      status: 200,
      headers: { "content-type": "text/event-stream" },
      body: 'data: {"choices":[{"index":0,"delta":{"content":"let me "}}]}\n\ndata: {"error":{"message":"worker died","type":"server_error"}}\n\n',
    },
    tries: 1,
    code: "overloaded",
    says: [/the provider failed: worker died/, /try again later/],
  },
];

const call = (path: string): FixedStep => ({
  reply: { text: "", calls: [{ tool: "write", arguments: { path, text: `${path}\n` } }] },
});
const LAST: FixedStep = { reply: { text: "ended well" } };

/** Settings with a key, and little patience. */
function configure(desk: Desk, url: string): void {
  writeFileSync(
    join(desk.home, "config.toml"),
    `model = "local/m"
[limits]
model_silence_seconds = 1
[providers.local]
wire = "openai-chat"
base_url = "${url}"
env_key = "THE_KEY"
`,
  );
}

async function onDesk(script: readonly FixedStep[], check: (desk: Desk) => Promise<void>) {
  const desk = await openDesk(script);
  try {
    configure(desk, desk.model.url);
    await check(desk);
    expectNoKey(desk.root);
  } finally {
    await desk.close();
  }
}

/** The key is in no file that anyone left. */
function expectNoKey(root: string): void {
  for (const name of readdirSync(root, { recursive: true, encoding: "utf8" })) {
    const path = join(root, name);
    const isFile = statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
    if (isFile) expect(readFileSync(path).includes(KEY), name).toBe(false);
  }
}

function idIn(ran: Ran): string {
  const id = /s_[0-9a-z]{26}/.exec(ran.stdout + ran.stderr)?.[0];
  if (id === undefined) throw new Error(`no session in ${ran.stdout}${ran.stderr}`);
  return id;
}

/** Goes on with a session, sees it end well, and that nothing was done twice or lost. */
async function goOn(desk: Desk, id: string): Promise<void> {
  const again = await desk.run(["resume", id], ENV);
  expect(again).toMatchObject({ code: 0, stdout: "ended well\n" });
  const ledger = await ledgerOf(desk, id);
  checkLedger(ledger);
  expect(ledger.filter(({ action }) => action.op.kind === "write")).toHaveLength(2);
  expect(JSON.stringify(ledger) + again.stdout + again.stderr).not.toContain(KEY);
  expect(read(join(desk.project, "one"))).toBe("one\n");
  expect(read(join(desk.project, "two"))).toBe("two\n");
  expect(existsSync(join(desk.project, "half.txt"))).toBe(false);
  checkConversations(desk.model.requests);
  expect(desk.model.errors).toEqual([]);
}

describe.concurrent("a model endpoint that fails a session", () => {
  test.each(CASES)(
    "$name: it is said, and the session goes on",
    { timeout: TIME_LIMIT_MS },
    (each) => {
      const faults = Array.from({ length: each.tries }, (): FixedStep => ({ fault: each.fault }));
      return onDesk([call("one"), ...faults, call("two"), LAST], async (desk) => {
        const ran = await desk.run(["exec", "work"], ENV);
        expect(ran).toMatchObject({ code: 1, stdout: "" });
        expect(desk.model.requests).toHaveLength(1 + each.tries);
        const line = ran.stderr.split("\n").find((text) => text.startsWith("dev: "));
        expect(line).toContain(`${desk.model.url}/chat/completions: `);
        for (const said of each.says) expect(line).toMatch(said);
        const id = idIn(ran);
        expect(ran.stderr).toContain(`dev resume ${id}\n`);
        expect(ran.stdout + ran.stderr).not.toContain(KEY);
        await goOn(desk, id);
      });
    },
  );

  test.each(CASES.filter(({ tries }) => tries === 1))(
    "$name: with --json the failed turn has the error",
    { timeout: TIME_LIMIT_MS },
    (each) =>
      onDesk([call("one"), { fault: each.fault }, call("two"), LAST], async (desk) => {
        const ran = await desk.run(["exec", "--json", "work"], ENV);
        expect(ran).toMatchObject({ code: 1, stderr: "" });
        const last = ran.lines.at(-1);
        expect(last).toMatchObject({ type: "turn.failed", error: { code: each.code } });
        expect(last.error.message).toMatch(each.says[0] ?? /^$/);
        expect(last.error.subject).toBe(`${desk.model.url}/chat/completions`);
        expect(ran.stdout).not.toContain(KEY);
        await goOn(desk, idIn(ran));
      }),
  );

  test("a 429 that passes is not even an interruption, and each try is in the ledger", () =>
    onDesk([call("one"), { fault: status(429, "slow down") }, call("two"), LAST], async (desk) => {
      const ran = await desk.run(["exec", "work"], ENV);
      expect(ran).toMatchObject({ code: 0, stdout: "ended well\n" });
      expect(ran.stderr).toContain("asking the model again: HTTP 429: slow down");
      const ledger = await ledgerOf(desk, idIn(ran));
      checkLedger(ledger);
      const tries = ledger.map(({ lines }) => lines.filter(({ state }) => state === "dispatched"));
      expect(tries.map((each) => each.length)).toContain(2);
    }));

  test("a call cut by the token limit is not run, and the model hears so and goes on", () =>
    onDesk(
      [
        call("one"),
        { fault: { kind: "half_call", call: halfCall, end: "length" } },
        { ...call("two"), expect: ["failed, nothing was done: write: arguments"] },
        LAST,
      ],
      async (desk) => {
        const ran = await desk.run(["exec", "work"], ENV);
        expect(ran).toMatchObject({ code: 0, stdout: "ended well\n" });
        expect(existsSync(join(desk.project, "half.txt"))).toBe(false);
        expect(desk.model.errors).toEqual([]);
      },
    ));

  test(
    "an endpoint that is not there, and later is, at the same address",
    { timeout: TIME_LIMIT_MS },
    () =>
      onDesk([], async (desk) => {
        const port = await freePort();
        configure(desk, `http://127.0.0.1:${port}/v1`);
        const ran = await desk.run(["exec", "work"], ENV);
        expect(ran).toMatchObject({ code: 1, stdout: "" });
        expect(ran.stderr).toContain(`dev: http://127.0.0.1:${port}/v1/chat/completions: `);
        expect(ran.stderr).toMatch(
          /no connection \(ECONNREFUSED\) \(tried 4 times\) \(see whether it/,
        );
        const alive = await startScripted([call("one"), LAST], { port });
        try {
          const again = await desk.run(["resume", idIn(ran)], ENV);
          expect(again).toMatchObject({ code: 0, stdout: "ended well\n" });
          expect(read(join(desk.project, "one"))).toBe("one\n");
        } finally {
          await alive.close();
        }
      }),
  );
});

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
