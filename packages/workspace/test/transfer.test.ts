import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { type Duplex, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Result } from "@dev/protocol";
import { type Received, receiveTree, type Sent, sendTree, TREE_LIMITS } from "@dev/workspace";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { bytesSeen, deeds, LOOKING, perform, restoring } from "./snapshot.ts";
import { draw, must, place } from "./tree.ts";

let here = place();
let count = 0;
beforeEach(() => {
  here = place();
});
afterEach(() => here.clear());

const LIMIT_MS = 120_000;
const looking = { ...LOOKING, cache: null };

/** The two ends of a connection. */
async function ends(): Promise<readonly [Socket, Socket]> {
  const server = createServer().listen(here.at(`socket${count++}`));
  await once(server, "listening");
  const one = connect(String(server.address()));
  const [other] = (await once(server, "connection")) as [Socket];
  server.close();
  return [one, other];
}

async function across(
  from: string,
  to: string,
  over?: readonly [Duplex, Duplex],
): Promise<readonly [Result<Sent>, Result<Received>]> {
  const [one, other] = over ?? (await ends());
  const both = await Promise.all([
    sendTree(from, one, looking).finally(() => one.destroy()),
    receiveTree(to, other, restoring()),
  ]);
  other.destroy();
  return both;
}

function kept(root: string): Record<string, string> {
  return Object.fromEntries(Object.entries(bytesSeen(root)).filter(([, is]) => is !== "special"));
}

test("any tree is at the other end what it is at this one", { timeout: LIMIT_MS }, async () => {
  await fc.assert(
    fc.asyncProperty(deeds, deeds, async (first, second) => {
      here.clear();
      here = place();
      for (const name of ["from", "to"]) mkdirSync(here.at(name));
      perform(here.at("from"), first);
      perform(here.at("to"), second);
      const [sent, received] = await across(here.at("from"), here.at("to"));
      must(sent);
      must(received);
      expect(kept(here.at("to"))).toEqual(kept(here.at("from")));
    }),
    { numRuns: 40 },
  );
});

test("only what the other end lacks crosses", async () => {
  const big = "b".repeat(900_000);
  draw(here.at("from"), { "d/big": big, "d/copy": big, "e/f": "f", g: "g" });
  draw(here.at("to"), {});
  const first = must((await across(here.at("from"), here.at("to")))[1]);
  expect(first.receivedBytes).toBeGreaterThan(900_000);
  // The same content twice crosses once.
  expect(first.receivedBytes).toBeLessThan(1_000_000);
  const still = must((await across(here.at("from"), here.at("to")))[1]);
  expect(still).toMatchObject({ receivedBytes: 0, writtenCount: 0 });
  appendFileSync(here.at("from/e/f"), "more");
  const third = must((await across(here.at("from"), here.at("to")))[1]);
  expect(third).toMatchObject({ writtenCount: 1 });
  expect(third.receivedBytes).toBeLessThan(500);
  // What it has under another name does not cross either.
  rmSync(here.at("from/d"), { recursive: true });
  draw(here.at("from"), { moved: big });
  const fourth = must((await across(here.at("from"), here.at("to")))[1]);
  expect(fourth.receivedBytes).toBeLessThan(1_000);
});

test("a long file crosses in pieces, of which those that are there do not", async () => {
  const content = Buffer.alloc(3 * 1024 * 1024 + 5);
  for (let at = 0; at < content.length; at += 101) content[at] = at % 253;
  for (const name of ["from", "to"]) mkdirSync(here.at(name));
  writeFileSync(here.at("from/big"), content);
  must((await across(here.at("from"), here.at("to")))[1]);
  content[2 * 1024 * 1024 + 9] = 255;
  writeFileSync(here.at("from/big"), content);
  const again = must((await across(here.at("from"), here.at("to")))[1]);
  expect(again.receivedBytes).toBeLessThan(1.1 * 1024 * 1024);
  expect(readFileSync(here.at("to/big")).equals(content)).toBe(true);
});

/** Lets so many bytes through, and then cuts the connection. */
async function cut(atBytes: number): Promise<readonly [Duplex, Duplex]> {
  const [one, middle] = await ends();
  const [far, other] = await ends();
  let left = atBytes;
  const scissors = new Transform({
    transform(chunk: Buffer, _, done) {
      const part = chunk.subarray(0, left);
      left -= part.length;
      if (left > 0) done(null, part);
      else done(new Error("cut"), part);
    },
  });
  pipeline(middle, scissors, far).catch(() => undefined);
  pipeline(far, middle).catch(() => undefined);
  return [one, other];
}

test("wherever the stream is cut, each file is the old one or the new one, and again finishes it", {
  timeout: LIMIT_MS,
}, async () => {
  const names = Array.from({ length: 12 }, (_, nth) => `d${nth % 3}/f${nth}`);
  const texts = (word: string) =>
    Object.fromEntries(names.map((name) => [name, `${word} ${name}`.repeat(200)]));
  let cuts = 0;
  for (let atBytes = 1; ; atBytes += 3_001) {
    rmSync(here.at("to"), { recursive: true, force: true });
    draw(here.at("from"), texts("new"));
    draw(here.at("to"), texts("old"));
    const [, received] = await across(here.at("from"), here.at("to"), await cut(atBytes));
    if (received.ok) break;
    cuts += 1;
    expect(received.fault.code).toBe("link_lost");
    for (const name of names) {
      const is = readFileSync(here.at(`to/${name}`), "utf8");
      expect([texts("new")[name], texts("old")[name]]).toContain(is);
    }
    expect(readdirSync(here.at("to")).sort()).toEqual(["d0", "d1", "d2"]);
    must((await across(here.at("from"), here.at("to")))[1]);
    expect(kept(here.at("to"))).toEqual(kept(here.at("from")));
  }
  expect(cuts).toBeGreaterThan(5);
});

/** A sender that means ill: it says these frames, whatever it is asked. */
async function told(frames: readonly Uint8Array[], limits = TREE_LIMITS) {
  const [one, other] = await ends();
  one.on("error", () => undefined);
  one.resume();
  for (const frame of frames) one.write(frame);
  const received = await receiveTree(here.at("to"), other, { ...restoring(), limits });
  one.destroy();
  other.destroy();
  return received;
}

const KINDS = { root: 0, want: 1, object: 2, lack: 3, done: 4, fault: 5 };
function frame(kind: keyof typeof KINDS, ...parts: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(parts);
  const head = Buffer.alloc(5);
  head.writeUInt32LE(body.length);
  head[4] = KINDS[kind];
  return Buffer.concat([head, body]);
}

const hash = (bytes: Uint8Array): Buffer => createHash("sha256").update(bytes).digest();
const root = (listing: Uint8Array): Buffer => frame("root", Buffer.of(1), hash(listing));
const object = (bytes: Uint8Array): Buffer => frame("object", hash(bytes), bytes);

/** A listing, made by hand: each entry with its kind and name, as the format has them. */
function listing(
  ...entries: readonly (readonly [kind: number, name: string, rest?: Uint8Array])[]
) {
  const parts = entries.map(([kind, name, rest = Buffer.alloc(0)]) =>
    Buffer.concat([Buffer.of(kind, name.length), Buffer.from(name, "latin1"), rest]),
  );
  return Buffer.concat([Buffer.of(1, entries.length), ...parts]);
}

const time = Buffer.alloc(8);
const fileOf = (bytes: Uint8Array): Buffer =>
  Buffer.concat([Buffer.of(0), time, Buffer.of(bytes.length), hash(bytes)]);
const linkTo = (target: string): Buffer =>
  Buffer.concat([time, Buffer.of(target.length), Buffer.from(target)]);
const dirOf = (inner: Uint8Array): Buffer => Buffer.concat([Buffer.of(0), time, hash(inner)]);

test.each<[string, readonly Uint8Array[], string]>([
  ["a path that leads up", said(listing([1, "..", fileOf(Buffer.from("x"))])), "corrupt"],
  ["an absolute path", said(listing([1, "/etc/x", fileOf(Buffer.from("x"))])), "corrupt"],
  ["a path below another", said(listing([1, "a/b", fileOf(Buffer.from("x"))])), "corrupt"],
  ["the directory itself", said(listing([2, ".", dirOf(listing())])), "corrupt"],
  ["an empty name", said(listing([1, "", fileOf(Buffer.from("x"))])), "corrupt"],
  ["a name with a NUL", said(listing([1, "a\0b", fileOf(Buffer.from("x"))])), "corrupt"],
  [
    "a symlink, and a directory in its place",
    said(listing([3, "d", linkTo("/tmp")], [2, "d", dirOf(listing())])),
    "corrupt",
  ],
  ["names out of order", said(listing([3, "b", linkTo("x")], [3, "a", linkTo("x")])), "corrupt"],
  ["bytes behind the end", said(Buffer.concat([listing(), Buffer.of(0)])), "corrupt"],
  ["a listing that ends early", said(listing([1, "a"])), "corrupt"],
  ["another object", [root(listing()), object(Buffer.from("other"))], "corrupt"],
  [
    "an object with a wrong digest",
    [root(listing()), frame("object", hash(listing()), Buffer.from("other"))],
    "corrupt",
  ],
  ["no root first", [frame("done", hash(listing()))], "corrupt"],
  ["a frame without end", [Buffer.of(255, 255, 255, 255, 2)], "corrupt"],
  ["an unknown frame", [Buffer.of(0, 0, 0, 0, 99)], "corrupt"],
  ["a later version", [frame("root", Buffer.of(9), hash(listing()))], "newer_version"],
  ["a fault of its own", [frame("fault", Buffer.from('{"code":"limit","message":"m"}'))], "limit"],
  ["a fault that is none", [frame("fault", Buffer.from("{"))], "io"],
])("a sender that says %s is refused, and nothing changes", async (_, frames, code) => {
  draw(here.at("to"), { mine: "mine" });
  const before = bytesSeen(here.at("to"));
  expect(await told(frames)).toMatchObject({ ok: false, fault: { code } });
  expect(bytesSeen(here.at("to"))).toEqual(before);
});

function said(bytes: Uint8Array): readonly Uint8Array[] {
  return [root(bytes), object(bytes)];
}

test("a tree of few listings that stands for one without end is refused", async () => {
  let inner = listing();
  const all = [inner];
  for (let depth = 0; depth < 40; depth++) {
    const entry = dirOf(inner);
    inner = listing([2, "a", entry], [2, "b", entry], [2, "c", entry]);
    all.unshift(inner);
  }
  mkdirSync(here.at("to"));
  const received = await told([root(inner), ...all.map(object)]);
  expect(received).toMatchObject({ ok: false, fault: { code: "limit" } });
  expect(readdirSync(here.at("to"))).toEqual([]);
});

test("a symlink that stands where a directory is to be is replaced, and not followed", async () => {
  draw(here.at("outside"), { x: "theirs" });
  draw(here.at("from"), { "d/x": "new" });
  mkdirSync(here.at("to"));
  symlinkSync(here.at("outside"), here.at("to/d"));
  must((await across(here.at("from"), here.at("to")))[1]);
  expect(readFileSync(here.at("outside/x"), "utf8")).toBe("theirs");
  expect(kept(here.at("to"))).toEqual(kept(here.at("from")));
});

test("more than the limits is refused by the one that receives", async () => {
  draw(here.at("from"), { a: "x".repeat(100), b: "y" });
  mkdirSync(here.at("to"));
  for (const limits of [
    { ...TREE_LIMITS, entryCount: 1 },
    { ...TREE_LIMITS, sizeBytes: 50 },
  ]) {
    const [one, other] = await ends();
    const [sent, received] = await Promise.all([
      sendTree(here.at("from"), one, looking),
      receiveTree(here.at("to"), other, { ...restoring(), limits }),
    ]);
    expect(received).toMatchObject({ ok: false, fault: { code: "limit" } });
    expect(sent).toMatchObject({ ok: false, fault: { code: "limit" } });
    expect(existsSync(here.at("to/a"))).toBe(false);
    one.destroy();
    other.destroy();
  }
});

test("a receiver that asks without end is not answered for ever", async () => {
  draw(here.at("from"), { a: "x" });
  const [one, other] = await ends();
  other.on("error", () => undefined);
  other.resume();
  const sent = sendTree(here.at("from"), one, looking);
  for (let nth = 0; nth < 50; nth++) other.write(frame("want", hash(Buffer.from("x"))));
  expect(await sent).toMatchObject({ ok: false, fault: { code: "limit" } });
  one.destroy();
  other.destroy();
});

test("one that is aborted ends, and leaves whole files", async () => {
  draw(here.at("from"), { a: "x" });
  mkdirSync(here.at("to"));
  const [one, other] = await ends();
  const controller = new AbortController();
  const receiving = receiveTree(here.at("to"), other, restoring(), controller.signal);
  controller.abort();
  await expect(receiving).rejects.toThrow("aborted");
  expect(readdirSync(here.at("to"))).toEqual([]);
  one.destroy();
  other.destroy();
});
