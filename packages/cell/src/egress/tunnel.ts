import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { type ActionId, fail, ok, type Result } from "@dev/protocol";
import { dismiss } from "./connection.ts";
import { dial } from "./dial.ts";
import { type Ground, NOTHING_PASSED, type Passed } from "./ground.ts";
import { HELLO_LIMIT_BYTES, readHello } from "./hello.ts";
import { isSameTarget, readTarget, type Target } from "./host.ts";
import { Meter } from "./meter.ts";
import { beginDraft, type Draft, failure, type Refusal, refusal } from "./record.ts";
import { type Allowance, allowancesOf, noRule } from "./rule.ts";

/** Opens the inside of a connection whose TLS the proxy ends, to be read as HTTP again. */
export type OnInside = (inside: TLSSocket, target: Target, action: ActionId | null) => void;

/**
 * Serves a CONNECT. What the rules can judge by the host alone passes through untouched, once its TLS
 * greeting names that host; where a rule has to see more, the proxy is the host to the cell.
 */
export async function serveTunnel(
  ground: Ground,
  request: IncomingMessage,
  client: Duplex,
  head: Buffer,
  action: ActionId | null,
  onInside: OnInside,
): Promise<void> {
  const draft = beginDraft(ground.seams.now(), action, "CONNECT");
  if (head.length > 0) client.unshift(head);
  const judged = judge(ground, request, draft);
  if (!judged.ok) return refuse(ground, client, draft, judged.fault);
  const { target, allowance } = judged.value;
  if (allowance === null) {
    const inside = await openInside(ground, client, target);
    if (inside.ok) onInside(inside.value, target, action);
    else cut(ground, client, draft, NOTHING_PASSED, inside.fault);
    return;
  }
  draft.rule = allowance.name;
  const gone = new AbortController();
  client.once("close", () => gone.abort());
  const origin = await dial(ground, target, allowance, gone.signal);
  if (!origin.ok) return refuse(ground, client, draft, origin.fault);
  client.write(ESTABLISHED);
  const greeting = await greet(ground, client, target);
  if (!greeting.ok) {
    origin.value.destroy();
    return cut(ground, client, draft, NOTHING_PASSED, greeting.fault);
  }
  await pass(ground, client, origin.value, draft);
}

const ESTABLISHED = "HTTP/1.1 200 Connection established\r\n\r\n";

type Route = { readonly target: Target; readonly allowance: Allowance | null };

/** Where it may go; without an allowance, what is said inside has to be seen first. */
function judge(
  ground: Ground,
  { url = "", headers }: IncomingMessage,
  draft: Draft,
): Result<Route, Refusal> {
  // A CONNECT has no usual port.
  const target = /:\d+$/.test(url) ? readTarget(url, 443) : null;
  if (target === null) return fail(refusal(400, "it names no host and port that can be judged"));
  draft.host = target.host.name;
  draft.port = target.port;
  const host = headers.host === undefined ? target : readTarget(headers.host, target.port);
  if (host === null || !isSameTarget(host, target)) {
    return fail(refusal(400, "its Host header names another host than it is for"));
  }
  if (!ground.admit()) return fail(refusal(429, "there were too many requests (requestCount)"));
  const here = allowancesOf(ground.allowances, target);
  const [first] = here;
  if (first === undefined) return fail(refusal(403, noRule(target)));
  return ok({ target, allowance: here.some(({ sees }) => sees) ? null : first });
}

async function openInside(
  ground: Ground,
  client: Duplex,
  target: Target,
): Promise<Result<TLSSocket, Refusal>> {
  const { authority, seams } = ground;
  if (authority === null) throw new Error("a rule that sees has an authority");
  client.write(ESTABLISHED);
  const greeting = await greet(ground, client, target);
  if (!greeting.ok) return greeting;
  return ok(
    new TLSSocket(client as Socket, {
      isServer: true,
      secureContext: authority.contextOf(target.host, seams.now()),
      ALPNProtocols: ["http/1.1"],
    }),
  );
}

/** Waits for a TLS greeting, leaves it to be read, and holds the name in it against the target. */
async function greet(
  { seams }: Ground,
  client: Duplex,
  { host }: Target,
): Promise<Result<undefined, Refusal>> {
  const bytes = await firstBytes(client, seams.limits.headerMs);
  if (bytes === null) return fail(refusal(403, "no TLS greeting came"));
  const hello = readHello(bytes);
  if (hello.kind !== "hello") {
    const why = hello.kind === "other" ? hello.why : "its TLS greeting is too long";
    return fail(refusal(403, `${why}; what passes through is TLS`));
  }
  if (host.kind === "address") {
    if (hello.name === null) return ok(undefined);
    return fail(refusal(403, "it is for an address, and its TLS greeting names a server"));
  }
  const named = hello.name === null ? null : readTarget(hello.name, 443);
  if (named?.host.name === host.name) return ok(undefined);
  const what = hello.name === null ? "no server" : "another server";
  return fail(refusal(403, `its TLS greeting names ${what} than it is for`));
}

/** The first bytes, up to the end of a greeting; they are put back. Null: not enough ever came. */
function firstBytes(client: Duplex, withinMs: number): Promise<Buffer | null> {
  return new Promise((resolve) => {
    let bytes: Buffer = Buffer.alloc(0);
    const end = (result: Buffer | null): void => {
      clearTimeout(timer);
      client.removeListener("data", take);
      for (const event of ENDS) client.removeListener(event, ended);
      client.pause();
      if (result !== null && !client.destroyed) client.unshift(result);
      resolve(result);
    };
    const take = (chunk: Buffer): void => {
      bytes = Buffer.concat([bytes, chunk]);
      if (readHello(bytes).kind !== "more" || bytes.length > HELLO_LIMIT_BYTES) end(bytes);
    };
    const ended = (): void => end(null);
    const timer = setTimeout(ended, withinMs);
    for (const event of ENDS) client.once(event, ended);
    client.on("data", take);
  });
}

const ENDS = ["end", "close", "error"] as const;

async function pass(ground: Ground, client: Duplex, origin: Socket, draft: Draft): Promise<void> {
  let why: string | null = null;
  const meter = new Meter(ground.seams.limits, (said) => {
    why ??= said;
    client.destroy();
    origin.destroy();
  });
  client.on("data", (chunk: Buffer) => meter.sent(chunk.length));
  origin.on("data", (chunk: Buffer) => meter.received(chunk.length));
  client.pipe(origin);
  origin.pipe(client);
  await Promise.all([closed(client, origin), closed(origin, client)]);
  meter.close();
  ground.record(draft, meter, why === null ? null : failure(why));
}

/** Resolves when a stream is closed; what it can no longer hear or say, the other need not either. */
function closed(stream: Duplex, other: Duplex): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      // What was on its way to the other still gets there, unless this one broke.
      if (stream.errored === null && stream.readableEnded) other.end();
      else other.destroy();
      resolve();
    };
    stream.on("error", () => stream.destroy());
    if (stream.closed) end();
    else stream.once("close", end);
  });
}

function refuse(ground: Ground, client: Duplex, draft: Draft, why: Refusal): void {
  dismiss(client, why.status, why.reason);
  ground.record(draft, NOTHING_PASSED, why);
}

function cut(ground: Ground, client: Duplex, draft: Draft, passed: Passed, why: Refusal): void {
  client.destroy();
  ground.record(draft, passed, why);
}
