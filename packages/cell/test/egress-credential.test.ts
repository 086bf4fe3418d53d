import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { redaction } from "../src/egress/redaction.ts";
import type { NetworkRule, SecretRule } from "../src/egress/rule.ts";
import { scratch } from "./cell.ts";
import { allow, asked, get, type Network, network, origin, plainly, said } from "./network.ts";

const HOST = "registry.example.test";
const SECRET = "s3cret-Token_0123456789/+=";

const FROM = { kind: "variable", name: "TOKEN" } as const;

function guarded(
  port: number,
  as: SecretRule["as"] = { kind: "bearer" },
  rest: Partial<NetworkRule> = {},
): NetworkRule {
  return allow(HOST, port, { secret: { from: FROM, as }, ...rest });
}

function with_(rules: readonly NetworkRule[]): Promise<Network> {
  return network(rules, { variables: { TOKEN: SECRET } });
}

test.each<[SecretRule["as"], string, string]>([
  [{ kind: "bearer" }, "authorization", `Bearer ${SECRET}`],
  [
    { kind: "basic", user: "robot" },
    "authorization",
    `Basic ${Buffer.from(`robot:${SECRET}`).toString("base64")}`,
  ],
  [{ kind: "header", name: "Private-Token" }, "private-token", SECRET],
])(
  "a rule's secret is added as %j, and what the cell sent in its place is dropped",
  async (as, header, value) => {
    const { port, asked: seen } = await origin((_, response) => response.end("here"), true);
    const net = await with_([guarded(port, as)]);
    const target = `${HOST}:${port}`;
    const own = [
      "Authorization: Bearer mine",
      "Private-Token: mine",
      "Cookie: mine",
      "Range: bytes=0-3",
    ];
    const answer = await asked(net, target, get(target, "/", ...own));
    expect(answer).toContain("here");
    expect(seen[0]?.headers[header]).toBe(value);
    expect(seen[0]?.headers.cookie).toBeUndefined();
    expect(seen[0]?.headers.range).toBeUndefined();
    expect(seen[0]?.headers["accept-encoding"]).toBe("identity");
    expect(JSON.stringify(net.records) + answer).not.toContain(SECRET);
  },
);

test("a secret is read from its file anew for each request", async () => {
  const path = join(await scratch(), "token");
  writeFileSync(path, "first-secret\n");
  const { port, asked: seen } = await origin((_, response) => response.end("here"), true);
  const secret: SecretRule = { from: { kind: "file", path }, as: { kind: "bearer" } };
  const net = await network([allow(HOST, port, { secret })]);
  await asked(net, `${HOST}:${port}`, get(`${HOST}:${port}`, "/"));
  writeFileSync(path, "second-secret\n");
  await asked(net, `${HOST}:${port}`, get(`${HOST}:${port}`, "/"));
  expect(seen.map(({ headers }) => headers.authorization)).toEqual([
    "Bearer first-secret",
    "Bearer second-secret",
  ]);
});

test.each([
  ["is not there", ""],
  ["is too short to be one", "short"],
  ["would end its header", "abcdefgh\r\nX-More: 1"],
])("a secret that %s is not sent, and not said", async (_, value) => {
  const { port, asked: seen } = await origin((_, response) => response.end("here"), true);
  const net = await network([guarded(port)], { variables: { TOKEN: value } });
  const answer = await asked(net, `${HOST}:${port}`, get(`${HOST}:${port}`, "/"));
  expect(answer).toMatch(/^HTTP\/1\.1 502 .*variable TOKEN/s);
  if (value !== "") expect(answer + JSON.stringify(net.records)).not.toContain(value);
  expect(seen).toEqual([]);
});

test("a secret goes over TLS only", async () => {
  const { port, asked: seen } = await origin((_, response) => response.end("here"), false);
  const net = await with_([guarded(port)]);
  expect(await said(net.port, plainly(`http://${HOST}:${port}/`))).toMatch(/ 403 .*TLS only/s);
  expect(seen).toEqual([]);
});

test("methods that change something need to be named by a rule with a secret", async () => {
  const { port, asked: seen } = await origin((_, response) => response.end("here"), true);
  const target = `${HOST}:${port}`;
  const put = get(target, "/package").replace("GET", "PUT");
  const reading = await with_([guarded(port)]);
  expect(await asked(reading, target, put)).toMatch(/ 403 .*allows no PUT/s);
  const override = get(target, "/package", "X-HTTP-Method-Override: PUT");
  expect(await asked(reading, target, override)).toMatch(/ 200 /);
  expect(seen[0]?.headers["x-http-method-override"]).toBeUndefined();
  const writing = await with_([guarded(port, { kind: "bearer" }, { methods: ["PUT"] })]);
  expect(await asked(writing, target, put)).toMatch(/ 200 /);
});

test("a redirect to another host is followed without the secret, by that host's own rule", async () => {
  const other = await origin((_, response) => response.end("elsewhere"), true);
  const { port } = await origin((_, response) => {
    response.writeHead(302, { location: `https://cdn.example.test:${other.port}/x` });
    response.end();
  }, true);
  const cdn = allow("cdn.example.test", other.port);
  const net = await with_([guarded(port), cdn]);
  const first = await asked(net, `${HOST}:${port}`, get(`${HOST}:${port}`, "/"));
  expect(first).toMatch(/ 302 .*location: https:\/\/cdn\.example\.test/s);
  const there = `cdn.example.test:${other.port}`;
  expect(await asked(net, there, get(there, "/x"))).toContain("elsewhere");
  expect(other.asked.map(({ headers }) => headers.authorization)).toEqual([undefined]);
});

const FORMS: readonly (readonly [string, string])[] = [
  ["as it is", SECRET],
  ["in base64", Buffer.from(SECRET).toString("base64")],
  ["in base64 for URLs", Buffer.from(SECRET).toString("base64url")],
  ["in hexadecimal", Buffer.from(SECRET).toString("hex")],
  ["escaped for a URL", encodeURIComponent(SECRET)],
  ["as the user's password", Buffer.from(`robot:${SECRET}`).toString("base64")],
];

test.each(FORMS)(
  "a secret that the origin says again %s is blotted out, wherever it stands",
  async (_, form) => {
    const { port } = await origin((_, response) => {
      response.writeHead(302, "OK", { location: `https://evil.test/?t=${form}`, "x-echo": form });
      // It is cut in two, and the beginning of it comes twice.
      response.write(`before ${form} ${form.slice(0, 5)}`);
      setImmediate(() => response.end(`${form.slice(5)} after`));
    }, true);
    const net = await with_([guarded(port, { kind: "basic", user: "robot" })]);
    const answer = await asked(net, `${HOST}:${port}`, get(`${HOST}:${port}`, "/"));
    expect(answer).toContain("before *");
    expect(answer).toMatch(/\*.?=* after/);
    for (const [, each] of FORMS) expect(answer).not.toContain(each);
    expect(await net.record(0)).toMatchObject({ verdict: "allowed" });
    expect((await net.record(0)).reason).toContain("blotted out");
  },
);

test("an answer in which no secret could be found is not passed on", async () => {
  const { port } = await origin((_, response) => {
    response.writeHead(200, { "content-encoding": "gzip" });
    response.end("whatever");
  }, true);
  const net = await with_([guarded(port)]);
  const answer = await asked(net, `${HOST}:${port}`, get(`${HOST}:${port}`, "/"));
  expect(answer).toMatch(/^HTTP\/1\.1 502 .*packed/s);
});

test("a stream is blotted alike however it is cut", async () => {
  const needles = ["abcab", "bcb", "aaaa"].map((text) => Buffer.from(text));
  const text = fc.array(fc.constantFrom("a", "b", "c", "abcab", "aaaa"), { maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(text, fc.array(fc.nat(40), { maxLength: 6 }), async (parts, cuts) => {
      const whole = parts.join("");
      const blotted = await through(needles, cutAt(whole, cuts));
      expect(blotted.length).toBe(whole.length);
      for (const needle of needles) expect(blotted).not.toContain(needle.toString());
      // Nothing else is touched: what is blotted lies in a secret.
      for (let at = 0; at < whole.length; at++) {
        if (blotted[at] !== "*") expect(blotted[at]).toBe(whole[at]);
        else expect(isWithin(whole, at, needles)).toBe(true);
      }
    }),
    { numRuns: 500 },
  );
});

function isWithin(whole: string, at: number, needles: readonly Buffer[]): boolean {
  return needles.some((needle) => {
    const text = needle.toString();
    const from = whole.indexOf(text, Math.max(0, at - text.length + 1));
    return from !== -1 && from <= at;
  });
}

function cutAt(text: string, cuts: readonly number[]): readonly string[] {
  const places = [0, ...cuts.map((cut) => Math.min(cut, text.length)), text.length];
  places.sort((one, other) => one - other);
  return places.slice(1).map((to, index) => text.slice(places[index], to));
}

async function through(needles: readonly Buffer[], parts: readonly string[]): Promise<string> {
  const stream = redaction(needles, () => undefined);
  for (const part of parts) stream.write(part);
  stream.end();
  let text = "";
  for await (const chunk of stream) text += String(chunk);
  return text;
}
