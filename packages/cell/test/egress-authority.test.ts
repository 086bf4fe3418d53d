import { X509Certificate } from "node:crypto";
import { createServer, type Socket } from "node:net";
import { connect, TLSSocket } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { createAuthority } from "../src/egress/authority.ts";
import { type Host, readTarget } from "../src/egress/host.ts";

const NOW_MS = Date.now();

test("an authority signs itself, may sign hosts, and no other authority", () => {
  const certificate = new X509Certificate(createAuthority(NOW_MS).certificate);
  expect(certificate.ca).toBe(true);
  expect(certificate.verify(certificate.publicKey)).toBe(true);
  expect(certificate.toString()).toContain("BEGIN CERTIFICATE");
});

test.each(["git.example.com", "127.0.0.1"])(
  "a client that trusts the authority takes it for %s, and one that does not does not",
  async (name) => {
    const authority = createAuthority(NOW_MS);
    const host = hostOf(name);
    const port = await serving((socket) => {
      const secured = new TLSSocket(socket, {
        isServer: true,
        secureContext: authority.contextOf(host, NOW_MS),
      });
      secured.on("error", () => undefined);
      secured.end("here");
    });
    expect(await said(port, host, authority.certificate)).toBe("here");
    const other = createAuthority(NOW_MS).certificate;
    expect(await said(port, host, other)).toMatch(/self-signed|unable to verify|signature/);
    expect(await said(port, hostOf("evil.example.com"), authority.certificate)).toMatch(
      /does not match/,
    );
  },
);

test("a host's certificate is made once, and anew before it ends", () => {
  const authority = createAuthority(NOW_MS);
  const host = hostOf("git.example.com");
  const first = authority.contextOf(host, NOW_MS);
  expect(authority.contextOf(host, NOW_MS + 1000)).toBe(first);
  expect(authority.contextOf(host, NOW_MS + 60 * 24 * 60 * 60 * 1000)).not.toBe(first);
});

function hostOf(text: string): Host {
  const target = readTarget(text, 443);
  if (target === null) throw new Error(text);
  return target.host;
}

async function serving(serve: (socket: Socket) => void): Promise<number> {
  const server = createServer(serve);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** What a server says to a client that wants this host; or why the client would not have it. */
function said(port: number, host: Host, ca: string): Promise<string> {
  return new Promise((resolve) => {
    const servername = host.kind === "name" ? { servername: host.name } : {};
    const identity = host.kind === "name" ? {} : { host: "127.0.0.1" };
    const socket = connect({ port, host: "127.0.0.1", ca, ...identity, ...servername });
    let text = "";
    socket.on("data", (chunk) => {
      text += String(chunk);
    });
    socket.on("error", (error) => resolve(error.message));
    socket.on("close", () => resolve(text));
  });
}
