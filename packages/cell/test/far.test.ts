import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import type { EffectEvent, Result } from "@dev/protocol";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { CONNECT_PATH, dialler } from "../src/dial.ts";
import type { Link } from "../src/vendor.ts";
import { WEBSOCKET_MESSAGE_LIMIT_BYTES } from "../src/websocket.ts";
import { collectWorkspace, fillWorkspace } from "../src/workspace.ts";
import { action, bundleAgent, IDLE, realClock, sh, TestCell } from "./cell.ts";
import { dialledIn, farAgent, TestServer } from "./far.ts";

let directory = "";
let bundle = "";

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "dev-agent-"));
  ({ path: bundle } = await bundleAgent(directory));
});

afterAll(() => rm(directory, { recursive: true, force: true }));

async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await realClock.sleep(5);
}

async function linkOf(server: TestServer, cell: TestCell, generation = 1): Promise<Link> {
  const link = await cell.connect(await dialledIn(server, cell.id), {}, generation);
  if (!link.ok) throw new Error(`${link.fault.code}: ${link.fault.message}`);
  return link.value;
}

const run = (link: Link, id: number, script: string): Promise<Result<EffectEvent>> =>
  link.perform(action(id, sh(script)), () => undefined, IDLE);

const done = (stdout: string) => ({
  ok: true,
  value: { outcome: { kind: "ok", result: { stdout } } },
});

async function runsOf(cell: TestCell): Promise<string> {
  return readFile(join(cell.workspace, "runs"), "utf8").catch(() => "");
}

/** A command that runs until the file `go` is there. */
const WAITS = "echo run >> runs; until [ -e go ]; do sleep 0.02; done; echo whole";

test("an agent dials in, and is closed by its host", async () => {
  const server = await TestServer.start();
  const cell = await TestCell.make(bundle);
  const agent = await farAgent(bundle, server, cell, 1);
  const link = await linkOf(server, cell);
  expect(await run(link, 1, "echo $DEV_CELL_TOKEN_FILE$DEV_CELL_TOKEN far")).toMatchObject(
    done("far\n"),
  );
  await link.close();
  expect(await agent.exited).toBe(0);
});

test("a link is cut in mid-command; the command finishes, and its result arrives once", async () => {
  const server = await TestServer.start();
  const cell = await TestCell.make(bundle);
  const agent = await farAgent(bundle, server, cell, 1);
  const first = await linkOf(server, cell);
  const lost = run(first, 1, WAITS);
  const waiting = run(first, 2, "echo run >> runs; echo second");
  await until(async () => (await runsOf(cell)) === "run\n");
  server.cut();
  expect(await lost).toMatchObject({ fault: { code: "link_lost" } });
  expect(await waiting).toMatchObject({ fault: { code: "link_lost" } });
  await writeFile(join(cell.workspace, "go"), "");
  const second = await linkOf(server, cell);
  expect(second.spool).toBe(first.spool);
  // Asked twice, on the new link: it ran once, and both have the same answer.
  const both = await Promise.all([run(second, 1, WAITS), run(second, 1, WAITS)]);
  for (const answer of both) expect(answer).toMatchObject(done("whole\n"));
  expect(await run(second, 2, "echo run >> runs; echo second")).toMatchObject(done("second\n"));
  expect(await runsOf(cell)).toBe("run\nrun\n");
  await second.close();
  expect(await agent.exited).toBe(0);
});

test("a server that is away, behind a proxy that answers 502 with HTML, is dialled again", async () => {
  const server = await TestServer.start();
  const cell = await TestCell.make(bundle);
  const agent = await farAgent(bundle, server, cell, 1);
  const first = await linkOf(server, cell);
  const lost = run(first, 1, WAITS);
  await until(async () => (await runsOf(cell)) === "run\n");
  await server.stop();
  expect(await lost).toMatchObject({ fault: { code: "link_lost" } });
  await writeFile(join(cell.workspace, "go"), "");
  const proxy = await server.answerWith(502, "<html><h1>Bad Gateway</h1></html>");
  await until(() => proxy.count() >= 2);
  await server.stop();
  await server.listen();
  const second = await linkOf(server, cell);
  expect(await run(second, 1, WAITS)).toMatchObject(done("whole\n"));
  expect(await runsOf(cell)).toBe("run\n");
  expect(agent.said()).toContain("502 Bad Gateway");
  await second.close();
  expect(await agent.exited).toBe(0);
});

test("an agent that dials has its workspace filled over its link, once, and collected", async () => {
  const server = await TestServer.start();
  const cell = await TestCell.make(bundle);
  await farAgent(bundle, server, cell, 1);
  const link = await linkOf(server, cell);
  const cache = await mkdtemp(join(directory, "cache-"));
  await writeFile(join(cache, "a"), "a\n".repeat(200_000));
  expect(await fillWorkspace(link, cache, IDLE)).toMatchObject({ ok: true });
  expect(await run(link, 1, "wc -l < a; echo b > b")).toMatchObject(done("200000\n"));
  await writeFile(join(cache, "a"), "older");
  expect(await fillWorkspace(link, cache, IDLE)).toMatchObject({ ok: true });
  const holder = { holder: "tests", isAlive: (its: string) => its === "tests" };
  expect(await collectWorkspace(link, cache, holder, IDLE)).toMatchObject({ ok: true });
  expect((await readdir(cache)).sort()).toEqual(["a", "b"]);
  expect(await readFile(join(cache, "a"), "utf8")).toBe("a\n".repeat(200_000));
  server.cut();
  expect(await collectWorkspace(link, cache, holder, IDLE)).toMatchObject({
    fault: { code: "link_lost" },
  });
});

test("an old generation that comes back is refused and ends", async () => {
  const server = await TestServer.start();
  const cell = await TestCell.make(bundle);
  const newer = await farAgent(bundle, server, cell, 2);
  const link = await linkOf(server, cell, 2);
  const older = await farAgent(bundle, server, cell, 1);
  expect(await older.exited).toBe(1);
  expect(older.said()).toContain("generation 1 is over: generation 2 has been linked");
  expect(await run(link, 1, "echo alive")).toMatchObject(done("alive\n"));
  await link.close();
  await newer.exited;
});

test("a newer generation takes over from an older one, which ends", async () => {
  const server = await TestServer.start();
  const cell = await TestCell.make(bundle);
  const older = await farAgent(bundle, server, cell, 1);
  const first = await linkOf(server, cell, 1);
  await farAgent(bundle, server, cell, 2);
  const second = await linkOf(server, cell, 2);
  expect(await older.exited).toBe(1);
  expect(await run(first, 1, "true")).toMatchObject({ fault: { code: "link_lost" } });
  expect(await run(second, 1, "echo new")).toMatchObject(done("new\n"));
});

test("of two diallers of one generation the second is refused, while the first answers", async () => {
  const server = await TestServer.start();
  const cell = await TestCell.make(bundle);
  await farAgent(bundle, server, cell, 1);
  const link = await linkOf(server, cell);
  const second = await farAgent(bundle, server, cell, 1);
  expect(await second.exited).toBe(1);
  expect(second.said()).toMatch(/ is held by somebody since \d{4}-/);
  expect(await run(link, 1, "echo alive")).toMatchObject(done("alive\n"));
});

test("of two that dial at the same moment one is seated and the other refused", async () => {
  const server = await TestServer.start();
  const cell = await TestCell.make(bundle);
  const agents = await Promise.all([1, 2].map(() => farAgent(bundle, server, cell, 1)));
  const link = await linkOf(server, cell);
  const status = await Promise.race(agents.map((agent) => agent.exited));
  expect(status).toBe(1);
  expect(await run(link, 1, "echo alive")).toMatchObject(done("alive\n"));
  await link.close();
  expect((await Promise.all(agents.map((agent) => agent.exited))).sort()).toEqual([0, 1]);
});

test("a holder that does not answer any more loses its seat to another process", async () => {
  const server = await TestServer.start();
  const cell = await TestCell.make(bundle);
  const first = await farAgent(bundle, server, cell, 1);
  await dialledIn(server, cell.id);
  // Switched off, as far as anybody can tell: its connection stays open.
  process.kill(first.pid, "SIGSTOP");
  await farAgent(bundle, server, cell, 1);
  const stream = await dialledIn(server, cell.id);
  expect(stream.destroyed).toBe(false);
});

test("a cell that is known to be gone ends its agent, and one of which nothing is known does not", async () => {
  const server = await TestServer.start();
  server.verdict = "unavailable";
  const cell = await TestCell.make(bundle);
  const agent = await farAgent(bundle, server, cell, 1);
  await until(() => agent.said().includes("503 what became of the cell is not known now"));
  server.verdict = "gone";
  expect(await agent.exited).toBe(1);
  expect(agent.said()).toContain("is no more");
});

test("a refused token is told in the server's words, and ends the agent", async () => {
  const server = await TestServer.start();
  const cell = await TestCell.make(bundle);
  const other = await TestCell.make(bundle);
  const its = { kind: "cell", cell: cell.id, generation: 1 } as const;
  const expired = server.token({ ...its, untilMs: 1 });
  const wrong = server.token({ ...its, cell: other.id });
  for (const [token, message] of [
    [expired, "the token has expired at 1970-01-01"],
    [wrong, `the token is of cell ${other.id}, and not of ${cell.id}`],
    [`${server.token(its)}x`, "the token's signature is not right"],
  ] as const) {
    const agent = await farAgent(bundle, server, cell, 1, token);
    expect(await agent.exited).toBe(1);
    expect(agent.said()).toContain(message);
  }
});

/** What the server answers to an upgrade that is made by hand. */
async function answerTo(
  server: TestServer,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<{ readonly status: number; readonly body: string }> {
  const asked = request(`${server.url}${path}`, {
    headers: {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
      ...headers,
    },
  });
  asked.end();
  const [response] = await once(asked, "response");
  let body = "";
  for await (const chunk of response) body += String(chunk);
  return { status: response.statusCode, body };
}

test("a token in a query string is refused, even when it is right", async () => {
  const server = await TestServer.start();
  const token = server.token({ kind: "vendor" });
  const headers = { "dev-instance": "i", "dev-name": "n" };
  const path = `${CONNECT_PATH}?token=${token}`;
  for (const more of [{}, { authorization: `Bearer ${token}` }]) {
    const answer = await answerTo(server, path, { ...headers, ...more });
    expect(answer.status).toBe(400);
    expect(answer.body).toContain("a token belongs in the Authorization header");
    expect(answer.body).not.toContain(token);
  }
  const none = await answerTo(server, CONNECT_PATH, headers);
  expect(none.status).toBe(401);
  const cookie = await answerTo(server, CONNECT_PATH, { ...headers, cookie: `token=${token}` });
  expect(cookie.status).toBe(401);
});

/** Dials as an agent would, and is this test. */
async function dialled(server: TestServer, cell: TestCell): Promise<WebSocket> {
  const token = server.token({ kind: "cell", cell: cell.id, generation: 1 });
  const socket = new WebSocket(`${server.url}${CONNECT_PATH}`, {
    headers: { authorization: `Bearer ${token}`, "dev-instance": "this-test" },
  });
  onTestFinished(() => socket.terminate());
  await once(socket, "open");
  return socket;
}

test("garbage frames end the link with a clear fault", async () => {
  const server = await TestServer.start();
  for (const garbage of [Buffer.from([4, 0, 0, 0, 1, 2, 3, 4]), Buffer.alloc(64, 255)]) {
    const cell = await TestCell.make(bundle);
    const socket = await dialled(server, cell);
    const opening = cell.connect(await dialledIn(server, cell.id), {}, 1);
    socket.send(garbage);
    expect(await opening).toMatchObject({
      fault: { code: "link_lost", message: expect.stringContaining("the link is garbled") },
    });
    if (socket.readyState !== WebSocket.CLOSED) await once(socket, "close");
  }
});

test("a message above the limit ends the link with a clear fault, and is not held in memory", async () => {
  const server = await TestServer.start();
  const cell = await TestCell.make(bundle);
  const socket = await dialled(server, cell);
  const opening = cell.connect(await dialledIn(server, cell.id), {}, 1);
  socket.on("error", () => undefined);
  socket.send(Buffer.alloc(WEBSOCKET_MESSAGE_LIMIT_BYTES + 1));
  expect(await opening).toMatchObject({
    fault: { code: "link_lost", message: expect.stringContaining("Max payload size exceeded") },
  });
});

async function memoryOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
}

test("to a host that does not read, output is dropped and the outcome is not", async () => {
  const server = await TestServer.start();
  const cell = await TestCell.make(bundle);
  const agent = await farAgent(bundle, server, cell, 1);
  const stream: Duplex = await dialledIn(server, cell.id);
  const opened = await cell.connect(stream, { outputBytes: 1_000 }, 1);
  if (!opened.ok) throw new Error(opened.fault.message);
  const script = "head -c 100000000 /dev/zero | tr '\\0' x; echo end; echo > done";
  let toldBytes = 0;
  const running = opened.value.perform(
    action(1, sh(script)),
    (_, text) => {
      toldBytes += text.length;
    },
    IDLE,
  );
  stream.pause();
  await until(async () => (await readdir(cell.workspace)).includes("done"));
  const most = await memoryOf(agent.pid);
  stream.resume();
  expect(await running).toMatchObject({
    value: { outcome: { kind: "ok", result: { stdoutCutBytes: 99_999_004 } } },
  });
  expect(toldBytes).toBeLessThan(50_000_000);
  expect(most).toBeLessThan(200);
});

test("a token is renewed over the link, before it expires", async () => {
  const server = await TestServer.start();
  const cell = await TestCell.make(bundle);
  const soon = server.token({
    kind: "cell",
    cell: cell.id,
    generation: 1,
    untilMs: Date.now() + 4_000,
  });
  const sent: string[] = [];
  server.sockets.clear();
  const dial = dialler({
    server: new URL(server.url),
    readToken: async () => ({ ok: true, value: soon }),
    headers: { "dev-instance": "this-test" },
    clock: realClock,
    random: Math.random,
    onTrouble: (message) => sent.push(message),
  });
  const first = await dial(IDLE);
  if (!first.ok) throw new Error(first.fault.message);
  onTestFinished(() => void first.value.destroy());
  await until(() => Date.now() > Number(JSON.parse(claimsIn(soon))[4]));
  server.cut();
  await until(() => first.value.destroyed);
  // The one that it was started with has expired by now.
  const second = await dial(IDLE);
  expect(second.ok).toBe(true);
  expect(sent).toEqual([]);
  if (second.ok) second.value.destroy();
});

function claimsIn(token: string): string {
  return Buffer.from(token.split(".")[1] ?? "", "base64url").toString();
}
