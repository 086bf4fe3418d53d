import type { Duplex } from "node:stream";
import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import { WebSocket } from "ws";
import type { Clock } from "./agent/clock.ts";
import { type Socketed, socketed, WEBSOCKET_OPTIONS } from "./websocket.ts";

/** Where links over WebSocket are opened. */
export const CONNECT_PATH = "/v1/cells/connect";
/** A redial waits at most this long, and at least half as long as it may. */
export const REDIAL_LIMIT_MS: number = 30_000;
/** What the first redial waits at most; each one after it twice as long. */
export const REDIAL_FIRST_MS: number = 500;
/** When a link has lived so long, its redial waits no longer than the first one. */
export const REDIAL_SETTLED_MS: number = 60_000;
/** A server that has not answered a dial by then does not. */
export const DIAL_LIMIT_MS: number = 20_000;
/** Of a refusal, what is read: a proxy's page may be long. */
export const REFUSAL_LIMIT_BYTES: number = 4096;

export type DialOptions = {
  /** Of the server: `https:`, or `http:`; a path of its own is kept before CONNECT_PATH. */
  readonly server: URL;
  /** Reads the token where it is kept. It is asked again when a token is refused. */
  readonly readToken: () => Promise<Result<string>>;
  /** What the dialler says of itself, besides its token. */
  readonly headers: Readonly<Record<string, string>>;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  /** Hears why a dial came to nothing, in a sentence. */
  readonly onTrouble: (message: string) => void;
  /** How one dial is made; a test may make it without a network. */
  readonly attempt?: Attempt;
};

export type Attempt = (
  url: URL,
  headers: Readonly<Record<string, string>>,
  onToken: (token: string) => void,
  clock: Clock,
  signal: AbortSignal,
) => Promise<Answer>;

export type Answer =
  | { readonly kind: "connected"; readonly link: Pick<Socketed, "stream"> }
  /** The server, or what stands before it, said no. */
  | { readonly kind: "refused"; readonly status: number; readonly message: string }
  /** Nobody said anything that can be understood. */
  | { readonly kind: "failed"; readonly message: string };

/** Dials until there is a link; each call is for the next one. */
export type Dialler = (signal: AbortSignal) => Promise<Result<Duplex>>;

/**
 * A dialler that goes on for as long as it is asked: through outages, proxies' error pages, limits. Only
 * what is final ends it. Faults: `gone` (410), `superseded` (409), `unauthorized` (401, with a token that was
 * read anew), `unavailable` when it was given up.
 */
export function dialler(options: DialOptions): Dialler {
  const { clock, server, onTrouble, attempt = attemptWebSocket } = options;
  const url = new URL(server);
  url.pathname = `${server.pathname.replace(/\/$/, "")}${CONNECT_PATH}`;
  url.search = "";
  const state: Dialling = { failureCount: 0, refreshed: undefined, refused: undefined };
  let linkedMs = Number.NEGATIVE_INFINITY;
  return async (signal) => {
    const isSettled = clock.monotonicMs() - linkedMs >= REDIAL_SETTLED_MS;
    if (isSettled) state.failureCount = Math.min(1, state.failureCount);
    while (!signal.aborted) {
      // Only the first dial of all goes out at once.
      if (state.failureCount > 0) await clock.sleep(pauseMs(state, options.random), signal);
      if (signal.aborted) break;
      state.failureCount += 1;
      const token = await tokenOf(state, options);
      if (!token.ok) return token;
      const headers = { ...options.headers, authorization: `Bearer ${token.value}` };
      const answer = await attempt(url, headers, (next) => refresh(state, next), clock, signal);
      if (answer.kind === "connected") {
        linkedMs = clock.monotonicMs();
        return ok(answer.link.stream);
      }
      const end = answer.kind === "refused" ? endOf(answer.status, answer.message) : undefined;
      if (end !== undefined) return fail(end);
      if (answer.kind === "refused" && answer.status === 401) {
        state.refused = { token: token.value, message: answer.message };
        state.refreshed = undefined;
      }
      const status = answer.kind === "refused" ? `${answer.status} ` : "";
      onTrouble(`${url.host}: ${status}${answer.message}`);
    }
    return fail(fault("unavailable", "dialling was given up", url.host));
  };
}

type Dialling = {
  failureCount: number;
  /** The token that came over the last link. */
  refreshed: string | undefined;
  /** The token that was refused last, and why. */
  refused: { readonly token: string; readonly message: string } | undefined;
};

/** Half of it is chance, so that all who lost one server do not come back to it at once. */
function pauseMs({ failureCount }: Dialling, random: () => number): number {
  const most = Math.min(REDIAL_LIMIT_MS, REDIAL_FIRST_MS * 2 ** Math.min(failureCount - 1, 16));
  return most / 2 + (random() * most) / 2;
}

function refresh(state: Dialling, token: string): void {
  state.refreshed = token;
}

/** The newest token; one that was refused is not sent again. */
async function tokenOf(state: Dialling, { readToken }: DialOptions): Promise<Result<string>> {
  if (state.refreshed !== undefined) return ok(state.refreshed);
  const kept = await readToken();
  const { refused } = state;
  if (!kept.ok || refused === undefined || kept.value !== refused.token) return kept;
  const message = `the token was refused, and there is no other: ${refused.message}`;
  return fail(
    fault("unauthorized", message, "the token", "give it a new token and start it again"),
  );
}

function endOf(status: number, message: string): Fault | undefined {
  if (status === 410) return fault("gone", message, "the cell");
  if (status === 409) return fault("superseded", message);
  return undefined;
}

async function attemptWebSocket(
  url: URL,
  headers: Readonly<Record<string, string>>,
  onToken: (token: string) => void,
  clock: Clock,
  signal: AbortSignal,
): Promise<Answer> {
  const socket = new WebSocket(url, {
    ...WEBSOCKET_OPTIONS,
    headers: { ...headers },
    handshakeTimeout: DIAL_LIMIT_MS,
    followRedirects: false,
  });
  const cut = (): void => socket.terminate();
  signal.addEventListener("abort", cut, { once: true });
  const answer = await new Promise<Answer>((resolve) => {
    socket.once("open", () =>
      resolve({ kind: "connected", link: socketed(socket, clock, onToken) }),
    );
    socket.on("error", (error) => resolve({ kind: "failed", message: wordsOf(error) }));
    socket.once("unexpected-response", (request, response) => {
      const status = response.statusCode ?? 0;
      let text = "";
      const done = (): void => {
        resolve({ kind: "refused", status, message: refusalOf(text) });
        request.destroy();
      };
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
        if (text.length > REFUSAL_LIMIT_BYTES) done();
      });
      for (const event of ["end", "error", "close"]) response.once(event, done);
      // One that trickles has said enough.
      response.setTimeout(DIAL_LIMIT_MS, done);
    });
  });
  signal.removeEventListener("abort", cut);
  return answer;
}

function wordsOf(error: Error): string {
  if (error.message !== "") return error.message;
  return "code" in error ? String(error.code) : error.name;
}

/** The server's own refusals are JSON; of anything else the first words are told. */
function refusalOf(text: string): string {
  try {
    const said: unknown = JSON.parse(text);
    if (typeof said === "object" && said !== null && "message" in said) return String(said.message);
  } catch {
    // A page that something before the server made.
  }
  const words = text
    .replace(/<[^>]*>/g, " ")
    .replace(/\s+/g, " ")
    .trim();
  return words === "" ? "refused without a word" : words.slice(0, 200);
}
