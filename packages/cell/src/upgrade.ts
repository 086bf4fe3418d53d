import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type CellId, type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import { WebSocketServer } from "ws";
import type { Clock } from "./agent/clock.ts";
import { CONNECT_PATH } from "./dial.ts";
import { type Admission, type Caller, Roster } from "./roster.ts";
import {
  type CellClaims,
  mintToken,
  readToken,
  type SecretOf,
  TOKEN_LIFE_MS,
  type TokenClaims,
} from "./token.ts";
import { type Socketed, socketed, WEBSOCKET_OPTIONS } from "./websocket.ts";

/** A token is renewed no sooner than so long after it was made, or could not be. */
const RENEW_LEAST_MS = 1000;
/** Links and dials that one server has at once. */
export const UPGRADE_LIMIT: number = 4096;
/** What a vendor may be called: it is put into messages and headers. */
export const VENDOR_NAME: RegExp = /^[\w.@-]{1,64}$/;

export type UpgradeOptions = {
  readonly secretOf: SecretOf;
  /**
   * What is known of a cell that dials in. Only positive proof says `gone` or `superseded`: they end
   * its agent. Where nothing can be known now, `unavailable` has it dial again.
   */
  readonly verdictOf: (
    claims: CellClaims,
  ) => Promise<"welcome" | "gone" | "superseded" | "unavailable">;
  readonly clock: Clock;
};

/** The listening half of links over WebSocket. */
export type CellUpgrades = {
  /**
   * For an HTTP server's `upgrade` event. False: the path is not CONNECT_PATH, and nothing was touched.
   * Everything else is answered here, with 101 or a refusal: 400, 401, 409, 410 or 503 and JSON with a
   * `message`.
   */
  readonly handle: (request: IncomingMessage, socket: Duplex, head: Buffer) => boolean;
  /** The next link of a cell's agent, now or when it dials; the signal gives up. */
  readonly cell: (account: string, cell: CellId, signal: AbortSignal) => Promise<Result<Duplex>>;
  /** The link of a vendor on another machine, if there is one that was not taken yet. */
  readonly vendor: (account: string, name: string) => Duplex | undefined;
  /** Who holds a vendor's name. */
  readonly holder: (account: string, name: string) => ReturnType<Roster["holder"]>;
  readonly close: () => void;
};

/** Takes in agents and vendors that dial. Their tokens are renewed over their links. */
export function cellUpgrades(options: UpgradeOptions): CellUpgrades {
  const roster = new Roster();
  const server = new WebSocketServer({ ...WEBSOCKET_OPTIONS, noServer: true });
  let count = 0;
  const handle = (request: IncomingMessage, socket: Duplex, head: Buffer): boolean => {
    const [path, query] = (request.url ?? "").split("?", 2);
    if (path !== CONNECT_PATH) return false;
    socket.on("error", () => socket.destroy());
    if (query !== undefined) {
      // What is in a URL is in every log on its way.
      refuse(socket, 400, fault("bad_request", "a token belongs in the Authorization header"));
      return true;
    }
    if (count >= UPGRADE_LIMIT) {
      refuse(socket, 503, fault("limit", `${UPGRADE_LIMIT} links are open`, "UPGRADE_LIMIT"));
      return true;
    }
    count += 1;
    socket.once("close", () => {
      count -= 1;
    });
    void admit(options, roster, request).then(
      (admitted) => {
        if (!admitted.ok) return refuse(socket, statusOf(admitted.fault), admitted.fault);
        if (socket.destroyed) return;
        const { admission, claims } = admitted.value;
        const conflict = roster.conflict(admission);
        if (conflict !== undefined) return refuse(socket, statusOf(conflict), conflict);
        server.handleUpgrade(request, socket, head, (webSocket) => {
          const link = socketed(webSocket, options.clock, () => undefined);
          roster.seat(admission, link, options.clock.wallMs());
          void renew(options, claims, link);
        });
      },
      // Our own bug: whoever dials is told so, and the bug is not lost.
      (error: unknown) => {
        refuse(socket, 500, fault("unavailable", "the server failed"));
        throw error;
      },
    );
    return true;
  };
  return {
    handle,
    cell: (account, cell, signal) => roster.next(seatOfCell(account, cell), signal),
    vendor: (account, name) => roster.take(seatOfVendor(account, name)),
    holder: (account, name) => roster.holder(seatOfVendor(account, name)),
    close: () => roster.close(),
  };
}

type Admitted = { readonly admission: Admission; readonly claims: TokenClaims };

async function admit(
  options: UpgradeOptions,
  roster: Roster,
  request: IncomingMessage,
): Promise<Result<Admitted>> {
  const [, token] = /^Bearer (\S+)$/.exec(request.headers.authorization ?? "") ?? [];
  if (token === undefined) {
    return fail(fault("unauthorized", "there is no token in the Authorization header"));
  }
  const claims = await readToken(token, options.secretOf, options.clock.wallMs());
  if (!claims.ok) return claims;
  const caller = callerOf(claims.value, request);
  if (!caller.ok) return caller;
  const known = await knownFault(options, claims.value);
  if (known !== undefined) return fail(known);
  const admitted = await roster.admit(caller.value);
  return admitted.ok ? ok({ admission: admitted.value, claims: claims.value }) : admitted;
}

function callerOf(claims: TokenClaims, { headers }: IncomingMessage): Result<Caller> {
  const instance = headerOf(headers["dev-instance"]);
  const label = headerOf(headers["dev-label"]) ?? "somebody";
  if (instance === undefined) return fail(fault("bad_request", "Dev-Instance is missing"));
  if (claims.kind === "vendor") {
    const name = headerOf(headers["dev-name"]);
    if (name === undefined) return fail(fault("bad_request", "Dev-Name is missing or no name"));
    return ok({ seat: seatOfVendor(claims.account, name), instance, generation: 0, label });
  }
  const cell = headers["dev-cell"];
  if (cell !== undefined && cell !== claims.cell) {
    const message = `the token is of cell ${claims.cell}, and not of ${String(cell).slice(0, 64)}`;
    return fail(fault("unauthorized", message, "the token"));
  }
  const { account, generation } = claims;
  return ok({ seat: seatOfCell(account, claims.cell), instance, generation, label });
}

function headerOf(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === "string" && VENDOR_NAME.test(value) ? value : undefined;
}

async function knownFault(
  { verdictOf }: UpgradeOptions,
  claims: TokenClaims,
): Promise<Fault | undefined> {
  if (claims.kind === "vendor") return undefined;
  switch (await verdictOf(claims)) {
    case "gone":
      return fault("gone", `cell ${claims.cell} is no more`, claims.cell);
    case "superseded":
      return fault("superseded", `generation ${claims.generation} is over`, claims.cell);
    case "unavailable":
      return fault("unavailable", "what became of the cell is not known now", claims.cell);
    case "welcome":
      return undefined;
  }
}

/** Gives the dialler a new token at half of the life of the one before, for as long as the link lives. */
async function renew(options: UpgradeOptions, claims: TokenClaims, link: Socketed): Promise<void> {
  const { clock, secretOf } = options;
  const over = new AbortController();
  link.stream.once("close", () => over.abort());
  let untilMs = claims.untilMs;
  while (!link.stream.destroyed) {
    const pauseMs = Math.max(RENEW_LEAST_MS, (untilMs - clock.wallMs()) / 2);
    await clock.sleep(pauseMs, over.signal);
    if (over.signal.aborted) return;
    const secret = await secretOf(claims.account);
    // Not known now: asked again after half of what is left.
    if (!secret.ok) continue;
    // An account that is no more: its token ends with its time.
    if (secret.value === undefined) return;
    untilMs = clock.wallMs() + TOKEN_LIFE_MS;
    link.sendToken(mintToken({ ...claims, untilMs }, secret.value));
  }
}

function seatOfCell(account: string, cell: CellId): string {
  return `cell ${encodeURIComponent(account)} ${cell}`;
}

function seatOfVendor(account: string, name: string): string {
  return `vendor ${encodeURIComponent(account)} ${name}`;
}

function statusOf({ code }: Fault): number {
  return STATUS_OF[code] ?? 503;
}

const STATUS_OF: Readonly<Partial<Record<Fault["code"], number>>> = {
  bad_request: 400,
  unauthorized: 401,
  superseded: 409,
  gone: 410,
};

const PHRASES: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  409: "Conflict",
  410: "Gone",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

function refuse(socket: Duplex, status: number, why: Fault): void {
  const body = JSON.stringify({ code: why.code, message: why.message });
  const lines = [
    `HTTP/1.1 ${status} ${PHRASES[status]}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Cache-Control: no-store",
    "Connection: close",
    ...(status === 401 ? ['WWW-Authenticate: Bearer realm="cells"'] : []),
    ...(status === 503 ? ["Retry-After: 5"] : []),
  ];
  if (socket.destroyed) return;
  socket.end(`${lines.join("\r\n")}\r\n\r\n${body}`, () => socket.destroy());
}
