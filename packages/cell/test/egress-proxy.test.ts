import { expect, test } from "vitest";
import { allow, asked, get, network, ORIGINS, origin, plainly, said } from "./network.ts";

test("a plain request to an allowed host is answered, and recorded without its query", async () => {
  const { port, asked } = await origin(
    (request, response) => response.end(`${request.url}`),
    false,
  );
  const net = await network([allow("web.example.test", port)]);
  const answer = await said(net.port, plainly(`http://web.example.test:${port}/a/b?token=x`));
  expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  expect(answer).toMatch(/\r\n\r\n.*\/a\/b\?token=x/s);
  expect(asked[0]?.headers).toEqual({ host: `web.example.test:${port}`, connection: "keep-alive" });
  expect(await net.record(0)).toMatchObject({
    ...{ host: "web.example.test", port, method: "GET", path: "/a/b", status: 200 },
    ...{ verdict: "allowed", rule: `allow web.example.test:${port}`, reason: "", action: null },
    ...{ upBytes: 0, downBytes: "/a/b?token=x".length },
  });
  expect(JSON.stringify(net.records)).not.toContain("token");
});

test("what no rule allows is refused with the words that say so", async () => {
  const net = await network([allow("web.example.test", 80)]);
  const answer = await said(net.port, plainly("http://other.example.test/"));
  expect(answer).toMatch(/^HTTP\/1\.1 403 /);
  expect(answer).toContain("no rule allows other.example.test on port 80");
  expect(await net.record(0)).toMatchObject({ verdict: "refused", rule: "", status: 0 });
});

test("TLS to an allowed host passes through, with the origin's own certificate", async () => {
  const { port } = await origin((_, response) => response.end("here"), true);
  const net = await network([allow("web.example.test", port)]);
  expect(net.egress.certificates).not.toContain("for one run");
  const answer = await asked(
    net,
    `web.example.test:${port}`,
    get("web.example.test", "/secret?x=y"),
  );
  expect(answer).toMatch(/^HTTP\/1\.1 200 OK/);
  const record = await net.record(0);
  expect(record).toMatchObject({ method: "CONNECT", path: "", verdict: "allowed", port });
  expect(record.upBytes).toBeGreaterThan(100);
  expect(record.downBytes).toBeGreaterThan(100);
});

test("where a rule has paths, TLS is ended and each request is judged and recorded", async () => {
  const { port } = await origin((request, response) => response.end(`${request.url}`), true);
  const target = `web.example.test:${port}`;
  const net = await network([allow("web.example.test", port, { paths: ["/public"] })]);
  expect(await asked(net, target, get(target, "/public/a"))).toContain("/public/a");
  expect(await asked(net, target, get(target, "/publican"))).toMatch(/^HTTP\/1\.1 403 /);
  expect(await asked(net, target, get(target, "/public/../private"))).toMatch(/^HTTP\/1\.1 400 /);
  expect(net.records.map(({ method, path, verdict }) => [method, path, verdict])).toEqual([
    ["GET", "/public/a", "allowed"],
    ["GET", "/publican", "refused"],
    ["GET", "", "refused"],
  ]);
});

test("a request's body goes up, chunked or not, and both ways are counted", async () => {
  const { port } = await origin((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => response.end(Buffer.concat(chunks)));
  }, false);
  const net = await network([allow("web.example.test", port)]);
  const head = `POST http://web.example.test:${port}/ HTTP/1.1\r\nHost: web.example.test:${port}\r\nConnection: close\r\n`;
  expect(await said(net.port, `${head}Content-Length: 5\r\n\r\nhello`)).toMatch(/hello/);
  const chunked = `${head}Transfer-Encoding: chunked\r\n\r\n3\r\nwor\r\n2\r\nld\r\n0\r\n\r\n`;
  expect(await said(net.port, chunked)).toMatch(/world/);
  expect(await net.record(1)).toMatchObject({ upBytes: 5, downBytes: 5, method: "POST" });
});

test("a command's own number is in the record, and goes no further", async () => {
  const { port, asked } = await origin((_, response) => response.end("here"), false);
  const net = await network([allow("web.example.test", port)]);
  const user = Buffer.from("17:x").toString("base64");
  await said(
    net.port,
    plainly(`http://web.example.test:${port}/`, `Proxy-Authorization: Basic ${user}`),
  );
  expect(await net.record(0)).toMatchObject({ action: 17 });
  expect(asked[0]?.rawHeaders.join()).not.toMatch(/proxy/i);
});

test("an origin that is not there fails, and is no refusal", async () => {
  const net = await network([allow("web.example.test", 9)]);
  expect(await said(net.port, plainly("http://web.example.test:9/"))).toMatch(/^HTTP\/1\.1 502 /);
  expect(await net.record(0)).toMatchObject({ verdict: "failed" });
  expect((await net.record(0)).reason).toContain("ECONNREFUSED");
});

test("an origin that cannot prove to be the host is not spoken to", async () => {
  const { port, asked: seen } = await origin((_, response) => response.end("here"), true);
  const target = `127.0.0.1:${port}`;
  const net = await network([allow("127.0.0.1", port, { paths: ["/"] })]);
  expect(await asked(net, target, get(target, "/"), { servername: "" })).toMatch(/502/);
  expect(seen).toEqual([]);
  expect((await net.record(0)).reason).toContain("does not prove to be it");
});

test("a command that does not trust the cell's certificate is in the record with its reason", async () => {
  const { port, asked: seen } = await origin((_, response) => response.end("here"), true);
  const target = `web.example.test:${port}`;
  const net = await network([allow("web.example.test", port, { paths: ["/"] })]);
  await asked(net, target, get(target, "/"), { ca: ORIGINS.certificate });
  expect(await net.record(0)).toMatchObject({ verdict: "failed", host: "web.example.test" });
  expect((await net.record(0)).reason).toContain("nothing was asked");
  expect(seen).toEqual([]);
});

test("connections to an origin are kept for the next request by the same rule", async () => {
  const ports: (number | undefined)[] = [];
  const { port } = await origin((request, response) => {
    ports.push(request.socket.remotePort);
    response.end("here");
  }, false);
  const net = await network([allow("web.example.test", port)]);
  for (let count = 0; count < 3; count++) {
    expect(await said(net.port, plainly(`http://web.example.test:${port}/`))).toMatch(/here/);
  }
  expect(new Set(ports).size).toBe(1);
});
