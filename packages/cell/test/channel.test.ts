import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { Duplex, duplexPair } from "node:stream";
import { buffer } from "node:stream/consumers";
import { encodeEvent, encodeShape, ok, type Result } from "@dev/protocol";
import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { type ChannelTable, type Host, serveLink } from "../src/agent/serve.ts";
import {
  CHANNEL_CHUNK_BYTES,
  CHANNEL_LIMIT,
  CHANNEL_OPEN_LIMIT_MS,
  CHANNEL_PAYLOAD_LIMIT_BYTES,
  CHANNEL_QUEUE_LIMIT_BYTES,
  CHANNEL_WINDOW_BYTES,
  type ChannelKind,
} from "../src/channel.ts";
import { DEFAULT_CELL_LIMITS } from "../src/limits.ts";
import { connectLink, type LinkHandlers } from "../src/link.ts";
import type { Link } from "../src/vendor.ts";
import { HELLO, METHODS, requestFrame, responseFrame, STATUSES } from "../src/wire.ts";
import { action, IDLE, sh } from "./cell.ts";

type Pair = {
  readonly link: Link;
  readonly host: Host;
  readonly hostEnd: Duplex;
  readonly agentEnd: Duplex;
};

type Asked = {
  readonly serves?: ChannelTable;
  readonly handlers?: LinkHandlers;
  readonly streams?: readonly [Duplex, Duplex];
  /** What the agent answers to an effect, and when. */
  readonly perform?: () => Promise<Result<Uint8Array>>;
};

/** A host and an agent of this process, with a real link between them. */
async function linked({ serves = {}, handlers = {}, streams, perform }: Asked = {}): Promise<Pair> {
  const [hostEnd, agentEnd] = streams ?? duplexPair();
  const agent = {
    identity: "spool",
    perform: perform ?? (() => Promise.resolve(DONE)),
    cancel: () => undefined,
    acknowledge: async () => ok(undefined),
    finish: async () => undefined,
    close: async () => undefined,
  };
  let host: Host | undefined;
  const serving = serveLink(
    agentEnd,
    async (_, its) => {
      host = its;
      return ok({ agent, channels: serves });
    },
    IDLE,
  );
  onTestFinished(async () => {
    hostEnd.destroy();
    agentEnd.destroy();
    await serving;
  });
  const link = await connectLink(hostEnd, OPENING, "none", handlers, IDLE);
  if (!link.ok || host === undefined) throw new Error("the link opens");
  return { link: link.value, host, hostEnd, agentEnd };
}

const OPENING = {
  cell: "c_00000000000000000000000000" as never,
  generation: 1,
  workspace: "/w",
  spool: "/s",
  rg: "/rg",
  pty: "/pty",
  limits: DEFAULT_CELL_LIMITS,
  variables: [],
  hasNetwork: false,
  certificates: "",
};

const OUTCOME = { kind: "unknown", known: "x".repeat(100) } as const;
const DONE = ok(encodeEvent({ kind: "exec", id: 1 as never, outcome: OUTCOME }));
const NONE = new Uint8Array(0);

async function channel(opened: Promise<Result<Duplex>>): Promise<Duplex> {
  const result = await opened;
  if (!result.ok) throw new Error(`${result.fault.code}: ${result.fault.message}`);
  return result.value;
}

const open = (link: Link, kind: ChannelKind = "pty", payload: Uint8Array = NONE) =>
  channel(link.open(kind, payload, IDLE));
const echo: ChannelTable = { pty: (_, stream) => void stream.pipe(stream) };

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setImmediate(resolve));
}

/** Reads nothing until it is told to. */
function held(): { serves: ChannelTable; stream: () => Duplex } {
  let kept: Duplex | undefined;
  return {
    serves: {
      workspace: (_, stream) => {
        kept = stream;
      },
    },
    stream: () => {
      if (kept === undefined) throw new Error("nothing was opened");
      return kept;
    },
  };
}

/** Two ends between which each write takes a turn of the event loop, and nothing else holds bytes. */
function slowly(): readonly [Duplex, Duplex] {
  const end = (other: () => Duplex): Duplex =>
    new Duplex({
      read: () => undefined,
      write: (chunk, _, done) => {
        setImmediate(() => {
          other().push(chunk);
          done();
        });
      },
    });
  const left: Duplex = end(() => right);
  const right: Duplex = end(() => left);
  return [left, right];
}

/** Two ends of a connection of the machine's own. */
async function sockets(): Promise<readonly [Socket, Socket]> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const client = connect(address.port, "127.0.0.1");
  const [accepted] = (await once(server, "connection")) as [Socket];
  onTestFinished(() => {
    server.close();
    client.destroy();
    accepted.destroy();
  });
  return [client, accepted];
}

test("bytes go both ways, and what the opening says arrives", async () => {
  const heard: string[] = [];
  const { link } = await linked({
    serves: {
      pty: (payload, stream, { opening }) => {
        heard.push(`${Buffer.from(payload)} in ${opening.workspace}`);
        stream.pipe(stream);
      },
    },
  });
  const stream = await open(link, "pty", Buffer.from("80x24"));
  const sent = randomBytes(3 * CHANNEL_WINDOW_BYTES + 17);
  stream.end(sent);
  expect((await buffer(stream)).equals(sent)).toBe(true);
  expect(heard).toEqual(["80x24 in /w"]);
});

test("the agent opens channels to the host", async () => {
  const { host } = await linked({
    handlers: {
      onChannel: (kind, payload, stream) => stream.end(`${kind} ${Buffer.from(payload)}`),
    },
  });
  const stream = await channel(host.openChannel("egress", Buffer.from("to you"), IDLE));
  stream.end();
  expect(String(await buffer(stream))).toBe("egress to you");
});

test("any bytes in any pieces arrive as they were, on any number of channels at once", async () => {
  const { link } = await linked({ serves: echo });
  const pieces = fc.array(fc.uint8Array({ maxLength: 90_000 }), { maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(fc.array(pieces, { minLength: 1, maxLength: 5 }), async (all) => {
      await Promise.all(
        all.map(async (mine) => {
          const stream = await open(link);
          for (const piece of mine) stream.write(piece);
          stream.end();
          expect((await buffer(stream)).equals(Buffer.concat(mine))).toBe(true);
        }),
      );
    }),
    { numRuns: 20 },
  );
});

test("a reader that does not read stops its writer at the window, and nobody else", async () => {
  const slow = held();
  const { link } = await linked({ serves: { ...echo, ...slow.serves } });
  const stuck = await open(link, "workspace");
  const sent = randomBytes(4 * CHANNEL_WINDOW_BYTES);
  let writtenBytes = 0;
  for (let at = 0; at < sent.length; at += 1024) {
    stuck.write(sent.subarray(at, at + 1024), () => {
      writtenBytes += 1024;
    });
  }
  stuck.end();
  const other = await open(link);
  other.end("not stuck");
  expect(String(await buffer(other))).toBe("not stuck");
  expect(writtenBytes).toBe(CHANNEL_WINDOW_BYTES);
  const digest = createHash("sha256");
  for await (const chunk of slow.stream()) digest.update(chunk);
  expect(digest.digest()).toEqual(createHash("sha256").update(sent).digest());
});

test("each way ends by itself", async () => {
  const got: string[] = [];
  const { link } = await linked({
    serves: {
      pty: (_, stream) => {
        stream.end("first the answer");
        stream.on("data", (chunk) => got.push(String(chunk)));
        stream.on("end", () => got.push("end"));
      },
    },
  });
  const stream = await open(link);
  stream.on("data", (chunk) => got.push(String(chunk)));
  await once(stream, "end");
  stream.end("then the question");
  await until(() => got.includes("end"));
  expect(got).toEqual(["first the answer", "then the question", "end"]);
});

test("a stream that is destroyed ends the other end's with its reason, and no other stream", async () => {
  const { link } = await linked({
    serves: { ...echo, workspace: (_, stream) => stream.destroy(new Error("no room")) },
  });
  const other = await open(link);
  const stream = await open(link, "workspace");
  const [error] = (await once(stream, "error")) as [Error];
  expect(error.message).toBe("no room");
  other.end("still here");
  expect(String(await buffer(other))).toBe("still here");
});

test("a kind that nobody serves is refused, from either side", async () => {
  const { link, host } = await linked();
  const unserved = { fault: { code: "unsupported", subject: "egress" } };
  expect(await link.open("egress", NONE, IDLE)).toMatchObject(unserved);
  expect(await host.openChannel("egress", NONE, IDLE)).toMatchObject(unserved);
});

test("many at once are served, and one above the limit is refused by name", async () => {
  const { link } = await linked({ serves: echo });
  const streams = await Promise.all(Array.from({ length: CHANNEL_LIMIT }, () => open(link)));
  const above = await link.open("pty", NONE, IDLE);
  expect(above).toMatchObject({ fault: { code: "limit", subject: "CHANNEL_LIMIT" } });
  const answers = await Promise.all(
    streams.map(async (stream, index) => {
      stream.end(`number ${index}`);
      return String(await buffer(stream));
    }),
  );
  expect(answers).toEqual(streams.map((_, index) => `number ${index}`));
  await until(() => streams.every((stream) => stream.closed));
  expect((await link.open("pty", NONE, IDLE)).ok).toBe(true);
});

test("what a channel is for has a limit with a name", async () => {
  const { link } = await linked({ serves: echo });
  const payload = new Uint8Array(CHANNEL_PAYLOAD_LIMIT_BYTES + 1);
  expect(await link.open("pty", payload, IDLE)).toMatchObject({
    fault: { code: "too_large", subject: "CHANNEL_PAYLOAD_LIMIT_BYTES" },
  });
});

test("a lost link destroys every stream with the reason, at both ends", async () => {
  const slow = held();
  const { link, hostEnd } = await linked({ serves: slow.serves, streams: await sockets() });
  const stream = await open(link, "workspace");
  const errors = [stream, slow.stream()].map((one) => once(one, "error"));
  hostEnd.destroy();
  for (const [error] of await Promise.all(errors))
    expect(error).toMatchObject({ code: "link_lost" });
  expect(await link.open("workspace", NONE, IDLE)).toMatchObject({ fault: { code: "link_lost" } });
});

test("an answer is not behind what channels have to send", async () => {
  let finish = (): void => undefined;
  const { link } = await linked({
    streams: slowly(),
    serves: {
      workspace: (_, stream) => {
        const zeros = Buffer.alloc(1024 * 1024);
        const more = (): void => {
          while (stream.write(zeros));
        };
        stream.on("drain", more);
        more();
      },
    },
    perform: () =>
      new Promise((resolve) => {
        finish = () => resolve(DONE);
      }),
  });
  let answered = false;
  const running = link
    .perform(action(1, sh("x")), () => undefined, IDLE)
    .then(() => {
      answered = true;
    });
  // Eight channels that never stop, of a reader that is never behind.
  const bulk = await Promise.all(Array.from({ length: 8 }, () => open(link, "workspace")));
  let beforeBytes = 0;
  let behindBytes = 0;
  for (const stream of bulk) {
    stream.on("data", (chunk: Buffer) => {
      beforeBytes += chunk.length;
      if (beforeBytes < 8 * CHANNEL_WINDOW_BYTES || answered) return;
      finish();
      behindBytes += chunk.length;
    });
  }
  await running;
  for (const stream of bulk) stream.destroy();
  expect(behindBytes).toBeLessThanOrEqual(CHANNEL_QUEUE_LIMIT_BYTES + 4 * CHANNEL_CHUNK_BYTES);
});

test("an opening that is never answered, or given up, comes to a fault", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const [hostEnd, agentEnd] = duplexPair();
  agentEnd.resume();
  const hello = encodeShape(HELLO, { generation: 1, spool: "spool" });
  agentEnd.write(responseFrame(STATUSES.done, 1, hello));
  const link = await connectLink(hostEnd, OPENING, "none", {}, IDLE);
  if (!link.ok) throw new Error(link.fault.message);
  const silent = link.value.open("pty", NONE, IDLE);
  const abort = new AbortController();
  const dropped = link.value.open("pty", NONE, abort.signal);
  abort.abort();
  expect(await dropped).toMatchObject({ fault: { code: "unavailable" } });
  await vi.advanceTimersByTimeAsync(CHANNEL_OPEN_LIMIT_MS);
  expect(await silent).toMatchObject({ fault: { code: "unavailable" } });
  // A late yes to either is nothing that breaks the link.
  agentEnd.write(responseFrame(STATUSES.channel, 3, Uint8Array.of(2)));
  agentEnd.write(responseFrame(STATUSES.channel, 5, Uint8Array.of(2)));
  expect((await link.value.open("pty", NONE, AbortSignal.abort())).ok).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(hostEnd.destroyed).toBe(false);
});

const GARBAGE: readonly (readonly [what: string, channel: number, message: Uint8Array])[] = [
  ["of a channel that was never opened", 41, Uint8Array.of(4, 1)],
  ["of no kind", 3, Uint8Array.of(9)],
  ["of nothing", 3, NONE],
  ["that opens what is the other end's to open", 41, Uint8Array.of(1, 1)],
  ["above its window", 3, Buffer.alloc(CHANNEL_WINDOW_BYTES + 2, 4)],
  ["with a credit above the window", 3, Uint8Array.of(5, 1, 0, 0, 0)],
  ["with half a credit", 3, Uint8Array.of(5, 1)],
  ["with a reason that is none", 3, Uint8Array.of(3, 1, 2, 3)],
];

test.each(GARBAGE)("a message %s ends the link, and says why", async (_, number, message) => {
  const { link, agentEnd } = await linked({ serves: { pty: () => undefined } });
  const stream = await open(link);
  const ended = once(stream, "error");
  agentEnd.write(responseFrame(STATUSES.channel, number, message));
  const [error] = (await ended) as [Error];
  expect(error.message).toMatch(/^the link is garbled: /);
  expect(await link.open("pty", NONE, IDLE)).toMatchObject({ fault: { code: "link_lost" } });
});

test("any garbage on channels ends the link or is ignored; nothing throws", async () => {
  const messages = fc.array(fc.tuple(fc.nat(9), fc.uint8Array({ maxLength: 12 })), {
    maxLength: 12,
  });
  await fc.assert(
    fc.asyncProperty(messages, async (all) => {
      const { link, hostEnd, agentEnd } = await linked({
        serves: echo,
        handlers: { onChannel: (_, __, stream) => stream.resume().end() },
      });
      await open(link);
      for (const [number, message] of all) {
        hostEnd.write(requestFrame(METHODS.channel, number, message));
        agentEnd.write(responseFrame(STATUSES.channel, number, message));
      }
      hostEnd.end();
      await until(() => hostEnd.destroyed || agentEnd.destroyed);
    }),
    { numRuns: 60 },
  );
});
