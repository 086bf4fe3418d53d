import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import type { Clock } from "../src/agent/clock.ts";
import {
  HEARTBEAT_LIMIT_MS,
  HEARTBEAT_MS,
  type Socketed,
  socketed,
  WEBSOCKET_CHUNK_BYTES,
  WEBSOCKET_OPTIONS,
} from "../src/websocket.ts";

/** Time that passes when the test says so. */
class HandClock implements Clock {
  #nowMs = 0;
  readonly #sleepers = new Set<{ readonly untilMs: number; readonly wake: () => void }>();
  wallMs = (): number => this.#nowMs;
  monotonicMs = (): number => this.#nowMs;
  sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise((wake) => {
      this.#sleepers.add({ untilMs: this.#nowMs + ms, wake });
      signal?.addEventListener("abort", () => wake());
    });
  pass(ms: number): void {
    this.#nowMs += ms;
    for (const sleeper of this.#sleepers) {
      if (sleeper.untilMs > this.#nowMs) continue;
      this.#sleepers.delete(sleeper);
      sleeper.wake();
    }
  }
}

type Ends = { readonly here: Socketed; readonly there: WebSocket; readonly clock: HandClock };

/** A link's end of this process, and a bare WebSocket at the other end of a real connection. */
async function ends(onToken: (token: string) => void = () => undefined): Promise<Ends> {
  const clock = new HandClock();
  const server = createServer();
  const sockets = new WebSocketServer({ ...WEBSOCKET_OPTIONS, server });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const there = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`, {
    ...WEBSOCKET_OPTIONS,
    autoPong: false,
  });
  const [[socket]] = await Promise.all([once(sockets, "connection"), once(there, "open")]);
  onTestFinished(() => {
    there.terminate();
    sockets.close();
    server.closeAllConnections();
    server.close();
  });
  return { here: socketed(socket as WebSocket, clock, onToken), there, clock };
}

async function beats({ clock, there }: Ends): Promise<void> {
  const ping = once(there, "ping");
  clock.pass(HEARTBEAT_MS);
  await ping;
}

test("an end that answers is kept, and one that says nothing is lost after the limit", async () => {
  const pair = await ends();
  const { here, there, clock } = pair;
  for (let count = 0; count < 10; count++) {
    await beats(pair);
    there.pong();
    // What is said after it has come, so the pong has been heard.
    there.send(Buffer.from("x"));
    await once(here.stream, "readable");
    here.stream.read();
  }
  const error = once(here.stream, "error");
  for (let ms = 0; ms <= HEARTBEAT_LIMIT_MS - HEARTBEAT_MS; ms += HEARTBEAT_MS) await beats(pair);
  expect(here.stream.destroyed).toBe(false);
  clock.pass(HEARTBEAT_MS);
  expect(String((await error)[0])).toMatch(/the other end said nothing for \d+ ms/);
});

test("bytes cross in messages of a limited size, both ways, to an end that is whole", async () => {
  const { here, there } = await ends();
  const sent = Buffer.alloc(5 * WEBSOCKET_CHUNK_BYTES + 7, "ab");
  const got: Buffer[] = [];
  there.on("message", (data) => got.push(data as Buffer));
  here.stream.write(sent.subarray(0, 10));
  here.stream.end(sent.subarray(10));
  there.send(Buffer.from("answer"));
  expect(String(await buffer(here.stream))).toBe("answer");
  expect(Buffer.concat(got).equals(sent)).toBe(true);
  expect(Math.max(...got.map((each) => each.length))).toBeLessThanOrEqual(WEBSOCKET_CHUNK_BYTES);
});

test("an end that does not read makes the writer wait at the limit", async () => {
  const { here, there } = await ends();
  there.pause();
  let writtenBytes = 0;
  const part = Buffer.alloc(1024 * 1024);
  const write = (): void => {
    here.stream.write(part, (error) => {
      if (error !== null && error !== undefined) return;
      writtenBytes += part.length;
      write();
    });
  };
  write();
  // Until the machine's own buffers are full, and nothing has moved for a while of turns.
  let before = -1;
  for (let still = 0; still < 2000; still = writtenBytes === before ? still + 1 : 0) {
    before = writtenBytes;
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(here.stream.writableLength).toBeLessThanOrEqual(part.length);
  const held = writtenBytes;
  there.resume();
  let gotBytes = 0;
  await new Promise<void>((resolve) => {
    there.on("message", (data) => {
      gotBytes += (data as Buffer).length;
      if (gotBytes > held + 2 * part.length) resolve();
    });
  });
  expect(writtenBytes).toBeGreaterThan(held);
});

test("a text is a token and none of the bytes", async () => {
  const tokens: string[] = [];
  const { here, there } = await ends((token) => tokens.push(token));
  there.send("dev1.a.b");
  there.send(Buffer.from("bytes"));
  await once(here.stream, "readable");
  expect(String(here.stream.read())).toBe("bytes");
  expect(tokens).toEqual(["dev1.a.b"]);
});

test("an end that closes in any way but whole is lost, with its reason", async () => {
  const { here, there } = await ends();
  const error = once(here.stream, "error");
  there.close(1011, "out of order");
  expect(String((await error)[0])).toContain("the WebSocket was closed: 1011 out of order");
});
