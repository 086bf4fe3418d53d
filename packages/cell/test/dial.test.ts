import { Duplex } from "node:stream";
import { ok } from "@dev/protocol";
import { expect, test } from "vitest";
import type { Clock } from "../src/agent/clock.ts";
import { type Answer, type Attempt, dialler, REDIAL_LIMIT_MS } from "../src/dial.ts";
import { IDLE } from "./cell.ts";

const HOUR_MS = 60 * 60 * 1000;
const PAGE = "<html><body><h1>502 Bad Gateway</h1></body></html>";

/** Time that passes only while somebody sleeps. */
class VirtualClock implements Clock {
  nowMs = 0;
  readonly sleptMs: number[] = [];
  wallMs = (): number => this.nowMs;
  monotonicMs = (): number => this.nowMs;
  sleep = async (ms: number): Promise<void> => {
    this.sleptMs.push(ms);
    this.nowMs += ms;
  };
}

type Server = (dial: {
  readonly token: string;
  readonly nowMs: number;
  readonly count: number;
}) => Answer;

const connected = (): Answer => ({
  kind: "connected",
  link: { stream: new Duplex({ read: () => undefined }) },
});
const refused = (status: number, message = "no"): Answer => ({ kind: "refused", status, message });

type Dialling = { readonly tokens: readonly string[]; readonly random: () => number };

/** A dialler of virtual time, against a server that is a function. */
function dialling(
  server: Server,
  { tokens = ["first"], random = (): number => 0.5 }: Partial<Dialling> = {},
) {
  const clock = new VirtualClock();
  const said: string[] = [];
  const dials: string[] = [];
  let refresh: (token: string) => void = () => undefined;
  let reads = 0;
  const attempt: Attempt = async (_, headers, onToken) => {
    const token = (headers.authorization ?? "").replace("Bearer ", "");
    refresh = onToken;
    dials.push(token);
    return server({ token, nowMs: clock.nowMs, count: dials.length });
  };
  const dial = dialler({
    server: new URL("http://127.0.0.1:1/"),
    readToken: async () => ok(tokens[Math.min(reads++, tokens.length - 1)] ?? ""),
    headers: {},
    clock,
    random,
    onTrouble: (message) => said.push(message),
    attempt,
  });
  return { dial, clock, said, dials, refresh: (token: string) => refresh(token) };
}

test("an outage of an hour is sat out, with dials of at most half a minute between", async () => {
  const { dial, clock, dials } = dialling(({ nowMs }) =>
    nowMs < HOUR_MS ? { kind: "failed", message: "connection refused" } : connected(),
  );
  expect((await dial(IDLE)).ok).toBe(true);
  expect(clock.nowMs).toBeGreaterThanOrEqual(HOUR_MS);
  expect(Math.max(...clock.sleptMs)).toBeLessThanOrEqual(REDIAL_LIMIT_MS);
  expect(dials.length).toBeLessThan(HOUR_MS / (REDIAL_LIMIT_MS / 2) + 10);
});

test("no status but those that say so ends the dialling, whatever page comes with it", async () => {
  const statuses = [200, 301, 400, 403, 404, 407, 418, 429, 500, 502, 503, 504, 599];
  const { dial, said, dials } = dialling(({ count }) => {
    const status = statuses[count - 1];
    return status === undefined ? connected() : refused(status, PAGE);
  });
  expect((await dial(IDLE)).ok).toBe(true);
  expect(dials.length).toBe(statuses.length + 1);
  expect(said[0]).toBe(`127.0.0.1:1: 200 ${PAGE}`);
});

test.each([
  [410, "gone"],
  [409, "superseded"],
])("%i ends the dialling as %s, in the server's words", async (status, code) => {
  const { dial, dials } = dialling(() => refused(status, "it is over"));
  expect(await dial(IDLE)).toMatchObject({ fault: { code, message: "it is over" } });
  expect(dials.length).toBe(1);
});

test("a pause grows to its limit, and chance parts those who lost one server at once", async () => {
  const pauses = async (chance: number): Promise<readonly number[]> => {
    const { dial, clock } = dialling(({ count }) => (count < 10 ? refused(503) : connected()), {
      random: () => chance,
    });
    await dial(IDLE);
    return clock.sleptMs;
  };
  expect(await pauses(0)).toEqual([250, 500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
  expect((await pauses(1)).slice(-2)).toEqual([30_000, 30_000]);
});

test("a link that breaks at once is not redialled at once, and one that lived long soon is", async () => {
  const { dial, clock } = dialling(() => connected());
  for (let count = 0; count < 4; count++) await dial(IDLE);
  expect(clock.sleptMs).toEqual([375, 750, 1500]);
  clock.nowMs += HOUR_MS;
  await dial(IDLE);
  expect(clock.sleptMs.at(-1)).toBe(375);
});

test("a token that came over the link is dialled with; once refused, the kept one is read again", async () => {
  const { dial, dials, refresh } = dialling(
    ({ token }) => (token === "second" ? refused(401, "it has expired") : connected()),
    { tokens: ["first", "third"] },
  );
  await dial(IDLE);
  refresh("second");
  expect((await dial(IDLE)).ok).toBe(true);
  expect(dials).toEqual(["first", "second", "third"]);
});

test("a token that is refused and is not replaced ends the dialling, and says why", async () => {
  const { dial, dials } = dialling(() => refused(401, "it has expired"));
  expect(await dial(IDLE)).toMatchObject({
    fault: {
      code: "unauthorized",
      message: "the token was refused, and there is no other: it has expired",
    },
  });
  expect(dials).toEqual(["first"]);
});

test("dialling is given up when it is told to", async () => {
  const abort = new AbortController();
  const { dial } = dialling(({ count }) => {
    if (count === 5) abort.abort();
    return refused(503);
  });
  expect(await dial(abort.signal)).toMatchObject({ fault: { code: "unavailable" } });
});
