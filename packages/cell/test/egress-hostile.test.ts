import { connect, createServer, type Socket } from "node:net";
import { Duplex, duplexPair } from "node:stream";
import { connect as connectTls } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import {
  allow,
  asked,
  get,
  listening,
  type Network,
  network,
  ORIGINS,
  origin,
  plainly,
  said,
  tunnel,
} from "./network.ts";

const HOST = "web.example.test";

/** A network that allows one origin, which answers "here" to whatever reaches it. */
async function one(
  terms: Parameters<typeof network>[1] = {},
): Promise<Network & { readonly at: number; readonly reached: readonly unknown[] }> {
  const { port, asked: reached } = await origin((_, response) => response.end("here"), false);
  return { ...(await network([allow(HOST, port)], terms)), at: port, reached };
}

test.each([
  ["a name that begins with it", (port: number) => `evil-${HOST}:${port}`],
  ["a name that ends otherwise", (port: number) => `${HOST}.evil.test:${port}`],
  ["another port", () => `${HOST}:1`],
  ["a user before it", (port: number) => `${HOST}:${port}@evil.test`],
  ["a user that is it", (port: number) => `x@${HOST}:${port}`],
  ["loopback in octal", (port: number) => `0177.0.0.1:${port}`],
  ["loopback as one number", (port: number) => `2130706433:${port}`],
  ["loopback, shortened", (port: number) => `127.1:${port}`],
  ["loopback, mapped", (port: number) => `[::ffff:127.0.0.1]:${port}`],
  ["loopback itself", (port: number) => `127.0.0.1:${port}`],
  ["an address with a zone", (port: number) => `[fe80::1%25lo]:${port}`],
  ["no port", () => HOST],
])("%s is refused, by CONNECT and plainly", async (_, targetOf) => {
  const net = await one();
  const target = targetOf(net.at);
  const byConnect = await said(net.port, `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
  expect(byConnect).toMatch(/^HTTP\/1\.1 40[03] /);
  const byUrl = `GET http://${target}/ HTTP/1.1\r\nHost: ${target}\r\nConnection: close\r\n\r\n`;
  expect(await said(net.port, byUrl)).toMatch(/^HTTP\/1\.1 (40[03]|502) /);
  expect(net.reached).toEqual([]);
  for (const { verdict } of net.records) expect(verdict).toBe("refused");
  expect(net.records.length).toBe(2);
});

test("the same name in another case, and with a trailing dot, is the same host", async () => {
  const net = await one();
  const url = `http://WEB.example.TEST.:${net.at}/`;
  const text = `GET ${url} HTTP/1.1\r\nHost: ${HOST}:${net.at}\r\nConnection: close\r\n\r\n`;
  expect(await said(net.port, text)).toMatch(/here/);
});

test.each([
  ["both a length and pieces", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"],
  ["two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n"],
  ["a length that is none", "Content-Length: +5\r\n"],
  ["pieces in a wrapping that nobody knows", "Transfer-Encoding: xchunked\r\n"],
  ["pieces that come first", "Transfer-Encoding: chunked, gzip\r\n"],
  [
    "pieces said by a tab and more",
    "Transfer-Encoding:\tchunked\r\nTransfer-Encoding: identity\r\n",
  ],
  ["a name with a space behind it", "Content-Length : 5\r\n"],
  ["a header that goes on in the next line", "X-A: 1\r\n Content-Length: 5\r\n"],
  ["a line that ends in a bare CR", "X-A: 1\rX-B: 2\r\n"],
  ["a NUL in a header", "X-A: 1\0\r\n"],
  ["two hosts", `Host: evil.test\r\n`],
])("a request with %s is refused", async (_, headers) => {
  const net = await one();
  const head = `POST http://${HOST}:${net.at}/ HTTP/1.1\r\nHost: ${HOST}:${net.at}\r\n`;
  const smuggled = `0\r\n\r\nGET http://${HOST}:${net.at}/smuggled HTTP/1.1\r\n\r\n`;
  const answer = await said(net.port, `${head}${headers}Connection: close\r\n\r\n${smuggled}`);
  // What follows may be garbled by itself, and then it is cut off before it is answered.
  expect(answer).toMatch(/^(HTTP\/1\.1 400 |$)/);
  expect(net.reached).toEqual([]);
  expect((await net.record(0)).verdict).toBe("refused");
});

test("what is written into a path cannot become a header of the request that goes on", async () => {
  const net = await one();
  const url = `http://${HOST}:${net.at}/a%0d%0aX-Injected:%201`;
  expect(await said(net.port, plainly(url))).toMatch(/^HTTP\/1\.1 400 /);
  expect(net.reached).toEqual([]);
});

test("a Host header that differs from the target is refused, plainly and by CONNECT", async () => {
  const net = await one();
  const plain = `GET http://${HOST}:${net.at}/ HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n`;
  expect(await said(net.port, plain)).toMatch(/^HTTP\/1\.1 400 .*names another host/s);
  const opened = `CONNECT ${HOST}:${net.at} HTTP/1.1\r\nHost: evil.test:${net.at}\r\n\r\n`;
  expect(await said(net.port, opened)).toMatch(/^HTTP\/1\.1 400 /);
  expect(net.reached).toEqual([]);
});

test("a Host header inside TLS that differs from the tunnel's target is refused", async () => {
  const { port, asked: reached } = await origin((_, response) => response.end("here"), true);
  const net = await network([allow(HOST, port, { paths: ["/"] }), allow("evil.test", port)]);
  const target = `${HOST}:${port}`;
  expect(await asked(net, target, get("evil.test", "/"))).toMatch(/^HTTP\/1\.1 400 /);
  expect(await asked(net, target, get(HOST, `http://evil.test:${port}/`))).toMatch(
    /^HTTP\/1\.1 400 /,
  );
  expect(await asked(net, target, `GET / HTTP/1.0\r\n\r\n`)).toMatch(/^HTTP\/1\.1 400 /);
  expect(reached).toEqual([]);
});

test.each([
  ["another server", "evil.test"],
  ["no server", ""],
])("a TLS greeting that names %s is not passed on", async (_, servername) => {
  const { port, asked: reached } = await origin((_, response) => response.end("here"), true);
  for (const paths of [[], ["/"]]) {
    const net = await network([allow(HOST, port, { paths })]);
    const answer = await asked(net, `${HOST}:${port}`, get(HOST, "/"), { servername });
    expect(answer).not.toContain("here");
    expect((await net.record(0)).reason).toContain("TLS greeting names");
    expect((await net.record(0)).verdict).toBe("refused");
  }
  expect(reached).toEqual([]);
});

test("what is no TLS does not pass through a tunnel", async () => {
  const net = await one();
  const { socket } = await tunnel(net.port, `${HOST}:${net.at}`);
  socket.end(get(HOST, "/"));
  expect((await net.record(0)).reason).toContain("it is not TLS");
  expect(net.reached).toEqual([]);
});

test("a TLS greeting that comes byte by byte is read like any other", async () => {
  const { port } = await origin((_, response) => response.end("here"), true);
  const net = await network([allow(HOST, port)]);
  const { socket } = await tunnel(net.port, `${HOST}:${port}`);
  const slow = new Duplex({
    read: () => socket.resume(),
    write: (chunk: Buffer, _, done) => {
      for (const byte of chunk) socket.write(Buffer.of(byte));
      done();
    },
  });
  socket.on("data", (chunk) => slow.push(chunk));
  socket.on("end", () => slow.push(null));
  const secured = connectTls({ socket: slow, servername: HOST, ca: ORIGINS.certificate });
  secured.write(get(HOST, "/"));
  const text = await new Promise<string>((resolve) => {
    let all = "";
    secured.on("data", (chunk) => {
      all += String(chunk);
      if (all.includes("here")) resolve(all);
    });
    secured.on("error", (error) => resolve(error.message));
  });
  expect(text).toContain("here");
});

test("a name that was public when it was judged is not looked up again to connect", async () => {
  const net = await one();
  const answers = [["198.51.99.1"], ["127.0.0.1"]];
  const asked: string[] = [];
  const rebound = await network([allow(HOST, net.at, { addresses: [] })], {
    resolve: async (name) => {
      asked.push(name);
      return answers.shift() ?? ["127.0.0.1"];
    },
    limits: { connectMs: 300 },
  });
  // Nothing answers at the public address; the private one, which would, is refused by itself.
  expect(await said(rebound.port, plainly(`http://${HOST}:${net.at}/`))).toMatch(/ 502 /);
  expect(asked).toEqual([HOST]);
  expect(await said(rebound.port, plainly(`http://${HOST}:${net.at}/`))).toMatch(/ 403 /);
  expect((await rebound.record(1)).reason).toContain("127.0.0.1: it is a loopback address");
  expect(net.reached).toEqual([]);
});

test.each([
  ["10.0.0.1"],
  ["169.254.169.254"],
  ["::1"],
  ["::ffff:127.0.0.1"],
  ["100.64.0.1"],
  ["224.0.0.1"],
  ["fe80::1%lo"],
])("a name that resolves to %s is refused", async (address) => {
  const net = await network([allow(HOST, 80, { addresses: [] })], {
    resolve: async () => [address],
  });
  expect(await said(net.port, plainly(`http://${HOST}/`))).toMatch(/ 403 /);
  expect((await net.record(0)).reason).toContain(address);
});

test("of a name with a private and a public address, only the public one is tried", async () => {
  const net = await network([allow(HOST, 9, { addresses: ["127.0.0.1"] })], {
    resolve: async () => ["10.0.0.1", "127.0.0.1"],
  });
  expect(await said(net.port, plainly(`http://${HOST}:9/`))).toMatch(/ 502 /);
  expect((await net.record(0)).reason).toContain("ECONNREFUSED");
});

test("a head that comes a byte at a time is not waited for for ever", async () => {
  const net = await one({ limits: { headerMs: 100 } });
  const socket = connect(net.port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => undefined);
  const text = plainly(`http://${HOST}:${net.at}/`);
  let at = 0;
  const drip = setInterval(() => {
    if (at < text.length - 1) socket.write(text[at++] ?? "");
  }, 10);
  await new Promise<void>((resolve) => socket.once("close", () => resolve()));
  clearInterval(drip);
  expect(net.reached).toEqual([]);
});

test("a TLS greeting that does not come is not waited for for ever", async () => {
  const net = await one({ limits: { headerMs: 100 } });
  const { socket } = await tunnel(net.port, `${HOST}:${net.at}`);
  socket.on("error", () => undefined);
  socket.resume();
  await new Promise<void>((resolve) => socket.once("close", () => resolve()));
  expect((await net.record(0)).reason).toContain("no TLS greeting came");
});

test("an answer that never ends is cut at the limit of bytes, and does not look whole", async () => {
  const { port } = await origin((_, response) => {
    const more = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(64 * 1024)));
    };
    response.on("drain", more);
    more();
  }, false);
  const net = await network([allow(HOST, port)], { limits: { bytes: 1024 * 1024 } });
  const answer = await said(net.port, plainly(`http://${HOST}:${port}/`));
  expect(answer.length).toBeLessThan(4 * 1024 * 1024);
  expect(answer.endsWith("0\r\n\r\n")).toBe(false);
  expect(await net.record(0)).toMatchObject({ verdict: "failed" });
  expect((await net.record(0)).reason).toContain("(bytes)");
});

test.each([
  ["says nothing", { idleMs: 100 }, "(idleMs)"],
  ["takes too long", { totalMs: 100 }, "(totalMs)"],
])("an origin that %s is given up, seen or not", async (_, limits, words) => {
  const silent = await listening(createServer(() => undefined));
  const net = await network([allow(HOST, silent)], { limits });
  expect(await said(net.port, plainly(`http://${HOST}:${silent}/`))).toMatch(/ 502 /);
  expect((await net.record(0)).reason).toContain(words);
  await asked(net, `${HOST}:${silent}`, get(HOST, "/"));
  expect((await net.record(1)).reason).toContain(words);
});

test("a head that is too long is refused", async () => {
  const net = await one();
  const answer = await said(
    net.port,
    plainly(`http://${HOST}:${net.at}/`, `X: ${"x".repeat(40_000)}`),
  );
  expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /);
  expect(net.reached).toEqual([]);
  expect((await net.record(0)).reason).toContain("HPE_HEADER_OVERFLOW");
});

test("an origin whose head is too long fails, and nothing of it comes back", async () => {
  const port = await listening(
    createServer((socket) => socket.end(`HTTP/1.1 200 OK\r\nX: ${"x".repeat(40_000)}\r\n\r\n`)),
  );
  const net = await network([allow(HOST, port)]);
  expect(await said(net.port, plainly(`http://${HOST}:${port}/`))).toMatch(/^HTTP\/1\.1 502 /);
});

test.each([
  ["a status that is none", "HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n"],
  ["a control in a header", "HTTP/1.1 200 OK\r\nX: \x01\r\nContent-Length: 0\r\n\r\n"],
  ["two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 1\r\n\r\n"],
  ["another protocol", "HTTP/1.1 101 OK\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"],
  ["no HTTP at all", "SSH-2.0-server\r\n"],
  ["nothing but its end", ""],
])("an origin that answers with %s fails, and the proxy goes on", async (_, text) => {
  const port = await listening(createServer((socket) => socket.end(text)));
  const net = await network([allow(HOST, port)]);
  for (let count = 0; count < 2; count++) {
    expect(await said(net.port, plainly(`http://${HOST}:${port}/`))).toMatch(/^HTTP\/1\.1 502 /);
    expect(await net.record(count)).toMatchObject({ verdict: "failed" });
  }
});

test("an origin that answers before it has read the whole request is heard", async () => {
  const { port } = await origin((request, response) => {
    response.writeHead(413, { connection: "close" });
    response.end("too much", () => request.socket.destroySoon());
  }, false);
  const net = await network([allow(HOST, port)]);
  const head = `POST http://${HOST}:${port}/ HTTP/1.1\r\nHost: ${HOST}:${port}\r\n`;
  const socket = connect(net.port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => undefined);
  const answer = new Promise<string>((resolve) => {
    socket.once("data", (chunk) => resolve(String(chunk)));
    socket.once("close", () => resolve(""));
  });
  socket.write(`${head}Content-Length: 1000000\r\n\r\n`);
  socket.write(Buffer.alloc(100_000));
  expect(await answer).toMatch(/^HTTP\/1\.1 413 /);
});

test("of a thousand connections at once, the limit is served and the rest is told so", async () => {
  const net = await one({ limits: { connectionCount: 200 } });
  const sockets: Socket[] = [];
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  let refusedCount = 0;
  await new Promise<void>((resolve) => {
    for (let count = 0; count < 1000; count++) {
      const socket = connect(net.port, "127.0.0.1");
      sockets.push(socket);
      socket.on("error", () => undefined);
      socket.once("data", (chunk) => {
        if (chunk.toString().startsWith("HTTP/1.1 503 ")) refusedCount += 1;
        if (refusedCount === 800) resolve();
      });
    }
  });
  // Those that were let in still are served.
  const idle = sockets.filter(({ bytesRead }) => bytesRead === 0);
  expect(idle.length).toBe(200);
  const answers = await Promise.all(
    idle.map(
      (socket) =>
        new Promise<string>((resolve) => {
          socket.once("data", (chunk) => resolve(chunk.toString()));
          socket.write(plainly(`http://${HOST}:${net.at}/`));
        }),
    ),
  );
  expect(answers.every((answer) => answer.startsWith("HTTP/1.1 200 "))).toBe(true);
});

test("requests that come in one piece are judged each by itself, and answered in order", async () => {
  const { port } = await origin((request, response) => response.end(`<${request.url}>`), false);
  const net = await network([allow(HOST, port)]);
  const ask = (url: string): string => `GET ${url} HTTP/1.1\r\nHost: ${new URL(url).host}\r\n\r\n`;
  const all =
    ask(`http://${HOST}:${port}/1`) +
    ask("http://evil.test/2") +
    ask(`http://${HOST}:${port}/3`) +
    plainly(`http://${HOST}:${port}/4`);
  const answer = await said(net.port, all);
  const seen = answer.match(/<\/\d>|HTTP\/1\.1 \d+/g);
  expect(seen).toEqual([
    ...["HTTP/1.1 200", "</1>", "HTTP/1.1 403", "HTTP/1.1 200", "</3>", "HTTP/1.1 200", "</4>"],
  ]);
});

test("who sends more requests ahead than the limit is cut off", async () => {
  const net = await one({ limits: { pipelineCount: 4 } });
  const text = `GET http://${HOST}:${net.at}/ HTTP/1.1\r\nHost: ${HOST}:${net.at}\r\n\r\n`;
  await said(net.port, text.repeat(50));
  expect(net.reached.length).toBeLessThan(50);
});

test("a tunnel that is asked for before the answers to earlier requests is none", async () => {
  const net = await one();
  const first = `GET http://${HOST}:${net.at}/ HTTP/1.1\r\nHost: ${HOST}:${net.at}\r\n\r\n`;
  const answer = await said(net.port, `${first}CONNECT ${HOST}:${net.at} HTTP/1.1\r\n\r\n`);
  expect(answer).not.toContain("established");
});

test("what asks for another protocol gets HTTP/1.1 and nothing else", async () => {
  const { port, asked: reached } = await origin((_, response) => response.end("here"), false);
  const net = await network([allow(HOST, port)]);
  const url = `http://${HOST}:${port}/`;
  const text = `GET ${url} HTTP/1.1\r\nHost: ${HOST}:${port}\r\nUpgrade: websocket\r\nConnection: close, Upgrade\r\n\r\n`;
  expect(await said(net.port, text)).toMatch(/here/);
  expect(reached.map(({ headers }) => headers.upgrade)).toEqual([undefined]);
});

test("past the limit of requests nothing is served, and one record says so for all", async () => {
  const net = await one({ limits: { requestCount: 2 } });
  for (let count = 0; count < 5; count++) {
    const answer = await said(net.port, plainly(`http://${HOST}:${net.at}/`));
    expect(answer).toMatch(count < 2 ? / 200 / : / 429 /);
  }
  expect(net.records.map(({ verdict }) => verdict)).toEqual(["allowed", "allowed", "refused"]);
});

test("any stream will do, and one that breaks off is let go", async () => {
  const net = await one();
  const [near, far] = duplexPair();
  net.egress.serve(far);
  const answer = new Promise<string>((resolve) =>
    near.once("data", (chunk) => resolve(String(chunk))),
  );
  near.write(plainly(`http://${HOST}:${net.at}/`));
  expect(await answer).toMatch(/^HTTP\/1\.1 200 /);
  near.destroy();
  far.destroy();
});

test("a network that was closed has no connection left", async () => {
  const net = await one();
  const socket = connect(net.port, "127.0.0.1");
  socket.on("error", () => undefined);
  await new Promise<void>((resolve) => socket.once("connect", () => resolve()));
  socket.write("GET ");
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  // The proxy has it once it has answered another that came later.
  await said(net.port, plainly(`http://${HOST}:${net.at}/`));
  net.egress.close();
  await closed;
});
