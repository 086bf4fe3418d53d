import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { EgressSeams } from "../src/egress/ground.ts";
import { EGRESS_LIMITS } from "../src/egress/limits.ts";
import type { EgressRecord } from "../src/egress/record.ts";
import type { NetworkRule } from "../src/egress/rule.ts";
import type { CellSpec, Link } from "../src/vendor.ts";
import { openVendor } from "../src/vendors/registry.ts";
import {
  linkOf,
  newId,
  noBubblewrap,
  noRuntime,
  optionsIn,
  ran,
  runsc,
  specIn,
  temporary,
} from "./machine.ts";
import { allow, ORIGINS, origin } from "./network.ts";

const HOST = "web.example.test";

type Place = {
  readonly link: Link;
  readonly records: readonly EgressRecord[];
  readonly end: () => Promise<void>;
};

/** A cell of this kind with a network of these rules; null: with none at all. */
async function cell(
  kind: string,
  rules: readonly NetworkRule[] | null,
  more: { readonly confine?: boolean; readonly seams?: boolean } = {},
): Promise<Place> {
  const base = temporary();
  const certificates = join(base, "origins.pem");
  writeFileSync(certificates, ORIGINS.certificate);
  const records: EgressRecord[] = [];
  const egress: EgressSeams = {
    resolve: async () => ["127.0.0.1"],
    variable: (name) => (name === "TOKEN" ? "a-token-that-stays-outside" : undefined),
    onRequest: (record) => records.push(record),
    now: () => Date.now(),
    limits: EGRESS_LIMITS,
  };
  const options = optionsIn(base, {
    ...(more.seams !== false && { egress }),
    ...(more.confine !== undefined && { confine: more.confine }),
  });
  const vendor = openVendor(kind, options, new AbortController().signal);
  if (!vendor.ok) throw new Error(vendor.fault.message);
  const network: Partial<CellSpec> =
    rules === null ? {} : { network: { allow: rules, certificates: [certificates] } };
  const spec = specIn(base, network);
  const id = newId();
  const link = await linkOf((progress) => vendor.value.create(id, spec, progress));
  const end = async (): Promise<void> => {
    expect(await vendor.value.delete(id)).toEqual({ ok: true, value: { kind: "gone" } });
  };
  return { link, records, end };
}

/** What a fetch from within says: its status and body, or the name of what went wrong. */
const FETCH = `
const { request } = require("node:http");
const { connect } = require("node:tls");
const url = new URL(process.argv[1]);
const proxy = new URL(process.env.https_proxy ?? "http://127.0.0.1:9");
const say = (text) => { console.log(text); process.exit(); };
const target = url.hostname + ":" + (url.port || 443);
const auth = "Basic " + btoa(proxy.username + ":" + proxy.password);
const headers = { host: target, "proxy-authorization": auth };
const asked = request({ host: proxy.hostname, port: proxy.port, method: "CONNECT", path: target, headers });
asked.on("error", (error) => say(error.code));
asked.on("connect", (answer, socket) => {
  if (answer.statusCode !== 200) return say(answer.statusCode);
  const inside = connect({ socket, servername: url.hostname });
  inside.on("error", (error) => say(error.code));
  const get = request({ createConnection: () => inside, host: url.host, path: url.pathname, headers: { host: url.host } });
  get.on("error", (error) => say(error.code));
  get.on("response", async (response) => {
    let text = "";
    for await (const chunk of response) text += chunk;
    say(response.statusCode + " " + (process.argv[2] === "count" ? text.length : text));
  });
  get.end();
});
asked.end();
`;

/** Every kind that keeps its commands from the machine's own network, and why it cannot be tried here. */
const KINDS: readonly (readonly [kind: string, skip: string | undefined])[] = [
  ["bubblewrap", noBubblewrap],
  ["local", noBubblewrap],
  ["runc", noRuntime("runc")],
  ["container", noRuntime("podman")],
  ["gvisor", noRuntime(runsc)],
];

for (const [kind, skip] of KINDS) {
  test(`a command in a ${kind} cell reaches what a rule allows, with a secret that it never has`, async (context) => {
    context.skip(skip !== undefined, `${skip}`);
    await reachesWhatIsAllowed(kind);
  });
}

async function reachesWhatIsAllowed(kind: string): Promise<void> {
  const { port } = await origin((request, response) => {
    response.end(`for ${request.headers.authorization === "Bearer a-token-that-stays-outside"}`);
  }, true);
  const rule = allow(HOST, port, {
    secret: { from: { kind: "variable", name: "TOKEN" }, as: { kind: "bearer" } },
  });
  const { link, records, end } = await cell(kind, [rule]);
  const fetched = await ran(link, "node", "-e", FETCH, `https://${HOST}:${port}/x`);
  expect(fetched).toMatchObject({ stdout: "200 for true\n", code: 0 });
  const refused = await ran(link, "node", "-e", FETCH, "https://evil.test/");
  expect(refused.stdout).toBe("403\n");
  const around = await ran(link, "node", "-e", AROUND, String(port));
  expect(around.stdout).toMatch(/ECONNREFUSED|ENETUNREACH/);
  expect(records.map(({ host, verdict }) => [host, verdict])).toEqual([
    [HOST, "allowed"],
    ["evil.test", "refused"],
  ]);
  expect(records.map(({ action }) => action)).not.toContain(null);
  const environment = await ran(link, "env");
  expect(environment.stdout).toContain("https_proxy=http://");
  expect(environment.stdout).not.toContain("a-token");
  // What it trusts is where its own programs find it.
  const trusted = await ran(
    link,
    "sh",
    "-c",
    'grep -c BEGIN "$NODE_EXTRA_CA_CERTS" "$SSL_CERT_FILE"',
  );
  expect(trusted.code).toBe(0);
  await end();
}

/** Straight to the origin, which is on the machine's own loopback. */
const AROUND = `
require("node:net").connect(+process.argv[1], "127.0.0.1")
  .on("connect", () => { console.log("connected"); process.exit(); })
  .on("error", (error) => { console.log(error.code); process.exit(); });
`;

test("a cell without rules has no way out, and no variable that speaks of one", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const { link, end } = await cell("bubblewrap", null);
  expect((await ran(link, "env")).stdout).not.toMatch(/proxy/i);
  expect((await ran(link, "node", "-e", FETCH, "https://evil.test/")).stdout).toBe(
    "ECONNREFUSED\n",
  );
  await end();
});

test("where nothing confines commands there is no proxy that would only seem to hold them", async () => {
  const { link, end } = await cell("local", [allow(HOST, 443)], { confine: false });
  expect(link.boundary).toBe("none");
  expect((await ran(link, "env")).stdout).not.toMatch(/https_proxy/);
  await end();
});

test("a vendor without a network of its own says so, rather than start a cell without one", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  await expect(cell("bubblewrap", [allow(HOST, 443)], { seams: false })).rejects.toThrow(
    "gives its cells no network",
  );
});

test("commands go on through the network side by side, and a large answer arrives whole", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const size = 20_000_000;
  const { port } = await origin((_, response) => response.end(Buffer.alloc(size, "x")), true);
  const { link, records, end } = await cell("bubblewrap", [allow(HOST, port)]);
  const url = `https://${HOST}:${port}/x`;
  const one = 'node -e "$0" "$1" count';
  const done = await ran(link, "sh", "-c", `${one} & ${one} & ${one} & wait`, FETCH, url);
  expect(done.stdout).toBe(`200 ${size}\n`.repeat(3));
  expect(records.every(({ downBytes }) => downBytes > size)).toBe(true);
  await end();
});
