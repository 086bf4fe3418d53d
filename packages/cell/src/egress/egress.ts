import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import {
  createSecureContext,
  rootCertificates,
  type SecureContext,
  type TLSSocket,
} from "node:tls";
import {
  type ActionId,
  actionId,
  type BrowseOp,
  type CellId,
  fail,
  fault,
  type Outcome,
  ok,
  type Result,
} from "@dev/protocol";
import { browse } from "./browse.ts";
import { Connection, dismiss } from "./connection.ts";
import { exchange } from "./exchange.ts";
import { type EgressSeams, type Ground, NOTHING_PASSED } from "./ground.ts";
import type { Target } from "./host.ts";
import { Origins } from "./origin.ts";
import { beginDraft, failure, finishRecord, refusal } from "./record.ts";
import { type NetworkRules, readRules } from "./rule.ts";
import { serveTunnel } from "./tunnel.ts";

/**
 * The network of one cell: a proxy that speaks HTTP/1.1 on any stream and lets through what the rules
 * allow, and nothing else. It runs outside the cell, and adds the secrets there.
 */
export class Egress {
  /** What a cell is to trust besides the system's certificates, as PEM; empty where nothing is. */
  readonly certificates: string;
  readonly #ground: Ground;
  readonly #origins: Origins;
  readonly #outside: Server;
  readonly #inside: Server;
  readonly #connections = new Map<Duplex, Connection>();
  #openCount = 0;

  private constructor(ground: Ground, certificates: string) {
    this.#ground = ground;
    this.certificates = certificates;
    this.#origins = new Origins(ground);
    this.#outside = this.#server();
    this.#inside = this.#server();
    this.#outside.on("connect", (request: IncomingMessage, client: Duplex, head: Buffer) =>
      this.#tunnel(request, client, head),
    );
    this.#inside.on("connect", (_: IncomingMessage, client: Duplex) => client.destroy());
  }

  /** Opens a cell's network; without a cell, that of a session itself. Fault: `config`, for a rule or a file of certificates that is none. */
  static async open(
    cell: CellId | null,
    rules: NetworkRules,
    seams: EgressSeams,
  ): Promise<Result<Egress>> {
    const allowances = readRules(rules);
    if (!allowances.ok) return allowances;
    const extra = readCertificates(rules.certificates);
    if (!extra.ok) return extra;
    const sees = allowances.value.some((each) => each.sees);
    // What makes certificates is loaded where there are some to make.
    const authority = sees ? (await import("./authority.ts")).createAuthority(seams.now()) : null;
    let admittedCount = 0;
    const ground: Ground = {
      cell,
      seams,
      allowances: allowances.value,
      authority,
      trust: extra.value.context,
      admit: () => {
        admittedCount += 1;
        return admittedCount <= seams.limits.requestCount;
      },
      record: (draft, passed, end) => {
        // The first that is too many is told, and stands for all after it.
        if (admittedCount > seams.limits.requestCount + 1) return;
        seams.onRequest(finishRecord(draft, cell, seams.now(), passed, end));
      },
    };
    return ok(new Egress(ground, `${authority?.certificate ?? ""}${extra.value.text}`));
  }

  /** Serves one connection of the cell's, to its end. */
  serve(client: Duplex): void {
    client.on("error", () => client.destroy());
    if (this.#openCount >= this.#ground.seams.limits.connectionCount) {
      dismiss(client, 503, "there are too many connections (connectionCount)");
      return;
    }
    this.#openCount += 1;
    client.once("close", () => {
      this.#openCount -= 1;
    });
    this.#hold(client, null, null);
    this.#outside.emit("connection", client);
  }

  /** Performs a request that the session itself makes, by the same rules. */
  browse(
    op: BrowseOp,
    action: ActionId,
    limitBytes: number,
    signal: AbortSignal,
  ): Promise<Outcome> {
    return browse(this.#ground, this.#origins, { op, action, limitBytes }, signal);
  }

  /** Ends every connection. */
  close(): void {
    for (const stream of this.#connections.keys()) stream.destroy();
    this.#origins.close();
  }

  #server(): Server {
    const { limits } = this.#ground.seams;
    // The limits on time are a connection's own: a server that does not listen has none of Node's.
    const server = createServer({ maxHeaderSize: limits.headerBytes, insecureHTTPParser: false });
    server.keepAliveTimeout = 0;
    server.on("request", (request, response) => this.#request(request, response));
    server.on("clientError", (error, stream) => this.#garbled(error, stream));
    return server;
  }

  #hold(stream: Duplex, tunnel: Target | null, action: ActionId | null): void {
    const { limits } = this.#ground.seams;
    this.#connections.set(stream, new Connection(stream, limits, tunnel, action));
    stream.once("close", () => this.#connections.delete(stream));
  }

  #request(request: IncomingMessage, response: ServerResponse): void {
    const connection = this.#connections.get(request.socket);
    if (connection === undefined) throw new Error("a request on a connection that nobody holds");
    const action = connection.action ?? actionOf(request);
    const asked = { request, response, tunnel: connection.tunnel, action };
    connection.enqueue(() => exchange(this.#ground, this.#origins, asked));
  }

  #tunnel(request: IncomingMessage, client: Duplex, head: Buffer): void {
    const connection = this.#connections.get(client);
    // Its answer would stand before those that are still to come.
    if (connection === undefined || connection.isBusy) {
      client.destroy();
      return;
    }
    connection.release();
    const action = actionOf(request);
    void serveTunnel(this.#ground, request, client, head, action, (inside, target) =>
      this.#enter(inside, target, action, client),
    );
  }

  #enter(inside: TLSSocket, target: Target, action: ActionId | null, client: Duplex): void {
    const draft = beginDraft(this.#ground.seams.now(), action, "CONNECT");
    draft.host = target.host.name;
    draft.port = target.port;
    this.#hold(inside, target, action);
    const connection = this.#connections.get(inside);
    inside.on("error", () => inside.destroy());
    inside.once("close", () => {
      client.destroy();
      // A client that does not trust what it was shown asks nothing, whatever it says of that.
      if (connection?.hasAsked === true) return;
      const words = `nothing was asked: ${inside.errored?.message ?? NO_TRUST}`;
      this.#ground.record(draft, NOTHING_PASSED, failure(words));
    });
    this.#inside.emit("connection", inside);
  }

  #garbled(error: NodeJS.ErrnoException, stream: Duplex): void {
    const connection = this.#connections.get(stream);
    // What else ends a stream, such as a reset or a broken TLS, is no request.
    const isParsers = error.code?.startsWith("HPE_") === true;
    if (connection !== undefined && isParsers && this.#ground.admit()) {
      const draft = beginDraft(this.#ground.seams.now(), connection.action, "");
      draft.host = connection.tunnel?.host.name ?? "";
      draft.port = connection.tunnel?.port ?? 0;
      const why = refusal(
        400,
        `it is not HTTP/1.1 as it should be: ${error.code ?? error.message}`,
      );
      this.#ground.record(draft, NOTHING_PASSED, why);
    }
    // An answer here would be taken for that to a request that is still under way.
    if (connection?.isBusy === false && isParsers && stream.writable) {
      dismiss(stream, 400, "");
    } else stream.destroy();
  }
}

const NO_TRUST = "the command may not trust the cell's certificates";

/** Commands name themselves as the proxy's user; it is what they say, and lets them do no more. */
function actionOf({ headers }: IncomingMessage): ActionId | null {
  const [, packed = ""] =
    /^Basic ([A-Za-z0-9+/=]{1,64})$/.exec(headers["proxy-authorization"] ?? "") ?? [];
  const [, digits] = /^(\d{1,15}):/.exec(Buffer.from(packed, "base64").toString("latin1")) ?? [];
  return digits === undefined || Number(digits) === 0 ? null : actionId(Number(digits));
}

type Certificates = { readonly context: SecureContext; readonly text: string };

function readCertificates(paths: readonly string[]): Result<Certificates> {
  let text = "";
  for (const path of paths) {
    try {
      text += `${readFileSync(path, "utf8")}\n`;
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error);
      return fail(fault("config", `certificates cannot be read: ${words}`, path));
    }
  }
  try {
    const ca = text === "" ? [...rootCertificates] : [...rootCertificates, text];
    return ok({ context: createSecureContext({ ca }), text });
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    return fail(fault("config", `these are no certificates: ${words}`, paths.join(", ")));
  }
}
