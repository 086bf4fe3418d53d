import { type ActionId, actionId, type BrowseOp, type Outcome } from "@dev/protocol";
import { expect, test } from "vitest";
import { IDLE } from "./cell.ts";
import { allow, type Network, network, origin } from "./network.ts";

const HOST = "web.example.test";
const ID: ActionId = actionId(5);
const SECRET = "a-secret-of-the-session";

function browse(
  net: Network,
  url: string,
  rest: Partial<BrowseOp> = {},
  limitBytes = 1_000,
): Promise<Outcome> {
  const op: BrowseOp = { kind: "browse", url, method: "GET", headers: [], body: "", ...rest };
  return net.egress.browse(op, ID, limitBytes, IDLE);
}

test("a page is fetched by the rules, and is in the record with its action", async () => {
  const { port, asked } = await origin((_, response) => {
    response.setHeader("set-cookie", ["a=1", "b=2"]);
    response.end("grüß Gott");
  }, true);
  const net = await network([allow(HOST, port)]);
  const headers = [{ name: "Accept", value: "text/html" }];
  const outcome = await browse(net, `https://${HOST}:${port}/a?b=c#d`, { headers });
  expect(outcome).toMatchObject({
    kind: "ok",
    result: { kind: "browse", status: 200, body: "grüß Gott", cutBytes: 0 },
  });
  expect(JSON.stringify(outcome)).toContain('{"name":"set-cookie","value":"b=2"}');
  expect(asked[0]).toMatchObject({ url: "/a?b=c", headers: { accept: "text/html" } });
  expect(net.records).toMatchObject([{ action: 5, host: HOST, path: "/a", verdict: "allowed" }]);
});

test.each([
  ["a host that no rule names", "https://evil.test/", "no rule allows evil.test"],
  ["loopback in octal", "http://0177.0.0.1/", "in a way that can be judged"],
  ["a user in the URL", `https://x@${HOST}/`, "in a way that can be judged"],
  ["dots in the path", `https://${HOST}/a/../b`, "elsewhere than it seems"],
  ["another scheme", "file:///etc/passwd", "in a way that can be judged"],
])("%s is refused", async (_, url, words) => {
  const net = await network([allow(HOST, 443)]);
  const outcome = await browse(net, url);
  expect(outcome).toMatchObject({ kind: "refused", rule: "network" });
  expect(outcome.kind === "refused" && outcome.reason).toContain(words);
  expect(net.records).toMatchObject([{ verdict: "refused" }]);
});

test("a name that resolves to a private address is refused", async () => {
  const net = await network([allow(HOST, 443, { addresses: [] })], {
    resolve: async () => ["169.254.169.254"],
  });
  expect(await browse(net, `https://${HOST}/`)).toMatchObject({ kind: "refused" });
});

test("headers that would end the head, and a host of the model's own, are not sent", async () => {
  const { port, asked } = await origin((_, response) => response.end("here"), true);
  const net = await network([allow(HOST, port)]);
  const url = `https://${HOST}:${port}/`;
  const split = [{ name: "A", value: "1\r\nB: 2" }];
  expect(await browse(net, url, { headers: split })).toMatchObject({ kind: "refused" });
  const wide = [{ name: "A", value: "\u{1f600}" }];
  expect(await browse(net, url, { headers: wide })).toMatchObject({ kind: "refused" });
  const hosts = [{ name: "Host", value: "evil.test" }];
  expect(await browse(net, url, { headers: hosts })).toMatchObject({ kind: "ok" });
  expect(asked.map(({ headers }) => headers.host)).toEqual([`${HOST}:${port}`]);
});

test("a redirect is told, and not followed", async () => {
  const { port } = await origin((_, response) => {
    response.writeHead(302, { location: "http://127.0.0.1/" });
    response.end();
  }, true);
  const net = await network([allow(HOST, port)]);
  const outcome = await browse(net, `https://${HOST}:${port}/`);
  expect(outcome).toMatchObject({ kind: "ok", result: { status: 302 } });
  expect(net.records.length).toBe(1);
});

test("a page is cut at its limit, and what is cut is counted", async () => {
  const { port } = await origin((_, response) => response.end("x".repeat(100_000)), true);
  const net = await network([allow(HOST, port)]);
  const outcome = await browse(net, `https://${HOST}:${port}/`, {}, 1_000);
  expect(outcome).toMatchObject({
    kind: "ok",
    result: { body: "x".repeat(1_000), cutBytes: 99_000 },
  });
});

test("a secret is added, and blotted out of what comes back, at the cut too", async () => {
  const { port } = await origin((request, response) => {
    response.end(`${"x".repeat(990)}${request.headers.authorization}`);
  }, true);
  const rule = allow(HOST, port, {
    secret: { from: { kind: "variable", name: "T" }, as: { kind: "bearer" } },
  });
  const net = await network([rule], { variables: { T: SECRET } });
  const outcome = await browse(net, `https://${HOST}:${port}/`);
  expect(outcome).toMatchObject({ kind: "ok", result: { cutBytes: SECRET.length - 3 } });
  expect(outcome.kind === "ok" && outcome.result).toMatchObject({
    body: `${"x".repeat(990)}Bearer ***`,
  });
});

test("a request that changes something and has no answer is unknown, one that reads has failed", async () => {
  const { port } = await origin((request) => void request.socket.destroy(), true);
  const net = await network([allow(HOST, port)]);
  const url = `https://${HOST}:${port}/`;
  expect(await browse(net, url)).toMatchObject({ kind: "failed", fault: { code: "unreachable" } });
  expect(await browse(net, url, { method: "POST", body: "x" })).toMatchObject({ kind: "unknown" });
});

test("a request that is given up is cancelled", async () => {
  const stop = new AbortController();
  const { port } = await origin(() => stop.abort(), true);
  const net = await network([allow(HOST, port)]);
  const op: BrowseOp = {
    ...{ kind: "browse", url: `https://${HOST}:${port}/`, method: "GET", headers: [], body: "" },
  };
  expect(await net.egress.browse(op, ID, 10, stop.signal)).toMatchObject({ kind: "cancelled" });
  expect(net.records).toMatchObject([{ verdict: "failed" }]);
});
