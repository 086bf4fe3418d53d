import { writeFileSync } from "node:fs";
import {
  createServer as createHttp,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from "node:http";
import { createServer as createHttps } from "node:https";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { cellId } from "@dev/protocol";
import { onTestFinished } from "vitest";
import { createAuthority } from "../src/egress/authority.ts";
import { Egress } from "../src/egress/egress.ts";
import type { EgressSeams } from "../src/egress/ground.ts";
import { readRuleHost } from "../src/egress/host.ts";
import { EGRESS_LIMITS, type EgressLimits } from "../src/egress/limits.ts";
import type { EgressRecord } from "../src/egress/record.ts";
import type { NetworkRule } from "../src/egress/rule.ts";
import { scratch } from "./cell.ts";

/** A rule for a host that lives on loopback, which it therefore names. */
export function allow(host: string, port: number, rest: Partial<NetworkRule> = {}): NetworkRule {
  const usual = { paths: [], methods: [], addresses: ["127.0.0.1"], push: false, secret: null };
  return { host, ports: [port], ...usual, ...rest };
}

export type Network = {
  readonly egress: Egress;
  readonly records: EgressRecord[];
  /** Where the proxy listens: one connection to it is one of a cell's. */
  readonly port: number;
  /** The record of that number, once it is there. */
  record(at: number): Promise<EgressRecord>;
};

export type NetworkTerms = {
  readonly limits?: Partial<EgressLimits>;
  readonly resolve?: EgressSeams["resolve"];
  readonly variables?: Readonly<Record<string, string>>;
};

/** A cell's network with these rules; every name is 127.0.0.1 unless `resolve` says otherwise. */
export async function network(
  rules: readonly NetworkRule[],
  terms: NetworkTerms = {},
): Promise<Network> {
  const records: EgressRecord[] = [];
  const waiting: (() => void)[] = [];
  const certificates = join(await scratch(), "origins.pem");
  writeFileSync(certificates, ORIGINS.certificate);
  const egress = await Egress.open(
    cellId(1, new Uint8Array(10)),
    { allow: rules, certificates: [certificates] },
    {
      resolve: terms.resolve ?? (async () => ["127.0.0.1"]),
      variable: (name) => terms.variables?.[name],
      onRequest: (record) => {
        records.push(record);
        for (const look of waiting.splice(0)) look();
      },
      now: () => Date.now(),
      limits: { ...EGRESS_LIMITS, ...terms.limits },
    },
  );
  if (!egress.ok) throw new Error(egress.fault.message);
  const port = await listening(
    createServer({ allowHalfOpen: true }, (socket) => egress.value.serve(socket)),
  );
  onTestFinished(() => egress.value.close());
  const record = async (at: number): Promise<EgressRecord> => {
    for (;;) {
      const found = records[at];
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => waiting.push(resolve));
    }
  };
  return { egress: egress.value, records, port, record };
}

/** What the origins of these tests are known by. */
export const ORIGINS: ReturnType<typeof createAuthority> = createAuthority(Date.now());

/** A web server, over TLS under any name; what it was asked is in `asked`. */
export async function origin(
  serve: RequestListener,
  isSecure: boolean,
): Promise<{ readonly port: number; readonly asked: IncomingMessage[] }> {
  const asked: IncomingMessage[] = [];
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    asked.push(request);
    serve(request, response as ServerResponse & { req: IncomingMessage });
  };
  const server = isSecure
    ? createHttps(
        {
          SNICallback: (name, done) => {
            const host = readRuleHost(name);
            if (host === null) done(new Error(name));
            else done(null, ORIGINS.contextOf(host, Date.now()));
          },
        },
        listener,
      )
    : createHttp(listener);
  return { port: await listening(server), asked };
}

/** A free port on loopback; what is open on it ends with the test. */
export async function listening(server: Server): Promise<number> {
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** Sends bytes, and gives all that comes until the other side ends. */
export function said(port: number, ...parts: readonly (string | Uint8Array)[]): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    let text = "";
    for (const part of parts) socket.write(part);
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
    });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(text));
    onTestFinished(() => void socket.destroy());
  });
}

/** A connection through the proxy, after its CONNECT was answered. */
export function tunnel(
  port: number,
  target: string,
): Promise<{ readonly socket: Socket; readonly head: string }> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
    let head = "";
    const take = (chunk: Buffer): void => {
      head += chunk.toString("latin1");
      if (!head.includes("\r\n\r\n")) return;
      socket.removeListener("data", take);
      socket.pause();
      resolve({ socket, head });
    };
    socket.on("data", take);
    socket.on("error", reject);
    socket.on("close", () => resolve({ socket, head }));
  });
}

/** A request through the proxy over TLS, as raw text; the answer is all that comes, or why none does. */
export async function asked(
  { port, egress }: Network,
  target: string,
  text: string,
  options: { readonly servername?: string; readonly ca?: string } = {},
): Promise<string> {
  const { socket, head } = await tunnel(port, target);
  if (!head.startsWith("HTTP/1.1 200")) return head;
  return new Promise((resolve) => {
    const secured = connectTls({
      socket,
      servername: options.servername ?? target.split(":")[0] ?? "",
      ca: options.ca ?? ORIGINS.certificate + egress.certificates,
      checkServerIdentity: () => undefined,
    });
    let answer = "";
    secured.write(text);
    secured.on("data", (chunk) => {
      answer += chunk.toString("latin1");
    });
    secured.on("error", (error) => resolve(`${answer}[${error.message}]`));
    secured.on("close", () => resolve(answer));
  });
}

export function get(host: string, path: string, ...headers: readonly string[]): string {
  const lines = [`GET ${path} HTTP/1.1`, `Host: ${host}`, ...headers, "Connection: close"];
  return `${lines.join("\r\n")}\r\n\r\n`;
}

/** A GET of a whole URL, as a proxy is asked without TLS. */
export function plainly(url: string, ...headers: readonly string[]): string {
  return get(new URL(url).host, url, ...headers);
}
