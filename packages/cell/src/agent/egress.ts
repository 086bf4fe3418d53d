import { readFile, writeFile } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { type ActionId, fail, ok, type Result } from "@dev/protocol";
import { systemFault } from "./errno.ts";

/** A cell's way out, as its commands see it: a proxy on the cell's own loopback. */
export type CellNetwork = {
  /** What a command has to know of it; it names itself by its action, for the record. */
  variables(id: ActionId): Readonly<Record<string, string>>;
  close(): void;
};

export type CellNetworkTerms = {
  /** A directory of the cell's own, outside the workspace. */
  readonly directory: string;
  /** What is to be trusted besides the system's certificates, as PEM; empty where nothing is. */
  readonly certificates: string;
  /** A stream to the host, which serves it as a proxy. */
  readonly open: () => Promise<Result<Duplex>>;
};

/** Connections that commands have open at once; one more is closed. It leaves channels for other kinds. */
const CELL_CONNECTION_LIMIT = 192;

/** Begins to listen, and writes down what is to be trusted. Fault: `io`. */
export async function openCellNetwork(terms: CellNetworkTerms): Promise<Result<CellNetwork>> {
  const server = createServer({ allowHalfOpen: true }, (socket) => void carry(terms, socket));
  server.maxConnections = CELL_CONNECTION_LIMIT;
  try {
    const port = await listen(server);
    // It does not keep the agent alive.
    server.unref();
    const trusted = await writeCertificates(terms);
    return ok({
      variables: (id) => variablesOf(port, id, trusted),
      close: () => server.close(),
    });
  } catch (error) {
    server.close();
    return fail(systemFault(error, terms.directory));
  }
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      if (address === null || typeof address === "string") throw new Error("it has a port");
      resolve(address.port);
    });
  });
}

async function carry({ open }: CellNetworkTerms, socket: Socket): Promise<void> {
  socket.on("error", () => socket.destroy());
  const opened = await open();
  if (!opened.ok) {
    socket.destroy();
    return;
  }
  const stream = opened.value;
  stream.on("error", () => stream.destroy());
  stream.once("close", () => leave(stream, socket));
  socket.once("close", () => leave(socket, stream));
  if (socket.destroyed) stream.destroy();
  socket.pipe(stream);
  stream.pipe(socket);
}

/** What was said to its end still gets to the other; what broke off must not look whole. */
function leave(gone: Duplex, other: Duplex): void {
  if (gone.readableEnded && gone.errored === null) other.end();
  else other.destroy();
}

/** Where systems keep what they trust, as one file. */
const BUNDLES: readonly string[] = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

type Trusted = { readonly own: string; readonly bundle: string };

/** Most programs take one file in place of the system's, so it has both; Node takes what is more. */
async function writeCertificates(terms: CellNetworkTerms): Promise<Trusted | null> {
  const { directory, certificates } = terms;
  if (certificates === "") return null;
  const trusted = { own: join(directory, "network.pem"), bundle: join(directory, "trusted.pem") };
  await writeFile(trusted.own, certificates);
  await writeFile(trusted.bundle, `${await systemBundle()}\n${certificates}`);
  return trusted;
}

async function systemBundle(): Promise<string> {
  for (const path of BUNDLES) {
    const text = await readFile(path, "utf8").catch(() => "");
    if (text.includes("BEGIN CERTIFICATE")) return text;
  }
  // Only here: an agent would be slower to start by all of them.
  const { rootCertificates } = await import("node:tls");
  return rootCertificates.join("\n");
}

function variablesOf(
  port: number,
  id: ActionId,
  trusted: Trusted | null,
): Readonly<Record<string, string>> {
  const proxy = `http://${id}:action@127.0.0.1:${port}`;
  const direct = "localhost,127.0.0.1,::1";
  return {
    ...{ http_proxy: proxy, https_proxy: proxy, no_proxy: direct },
    ...{ HTTP_PROXY: proxy, HTTPS_PROXY: proxy, NO_PROXY: direct },
    // Else it asks without its name first, and gets what it asks for.
    GIT_HTTP_PROXY_AUTHMETHOD: "basic",
    NODE_USE_ENV_PROXY: "1",
    ...(trusted !== null && {
      NODE_EXTRA_CA_CERTS: trusted.own,
      ...Object.fromEntries(TRUST_VARIABLES.map((name) => [name, trusted.bundle])),
    }),
  };
}

const TRUST_VARIABLES: readonly string[] = [
  "CARGO_HTTP_CAINFO",
  "CURL_CA_BUNDLE",
  "GIT_SSL_CAINFO",
  "PIP_CERT",
  "REQUESTS_CA_BUNDLE",
  "SSL_CERT_FILE",
  "npm_config_cafile",
];
