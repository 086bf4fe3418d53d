// What a cell's proxy costs: a request on a new connection, and a large answer, each as a multiple of the
// same without it, in turn in one run. The client, the proxy and the origin share this one process, so
// that a ratio is of all the work that there is.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { createServer as createHttps } from "node:https";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { EGRESS_LIMITS, Egress } from "@dev/cell";
import { createAuthority } from "../packages/cell/dist/egress/authority.js";

const ROUNDS = Number(process.env.ROUNDS ?? 200);
const LARGE_ROUNDS = 5;
const LARGE = Buffer.alloc(64 * 1024 * 1024, "x");
/** The most that each may take, in times of doing without the proxy. */
const LIMITS = { passing: 3, seen: 6, largePassing: 4, largeSeen: 6 };
const [PASSING, SEEN] = ["passing.example.test", "seen.example.test"];

const scratch = mkdtempSync(join(tmpdir(), "dev-bench-egress-"));
const origins = createAuthority(Date.now());
const certificates = join(scratch, "origins.pem");
writeFileSync(certificates, origins.certificate);
const origin = createHttps(
  {
    SNICallback: (name, done) => done(null, origins.contextOf({ kind: "name", name }, Date.now())),
  },
  (asked, answer) => answer.end(asked.url === "/large" ? LARGE : "here"),
);
const port = await listening(origin);
const usual = { ports: [port], methods: [], addresses: ["127.0.0.1"], push: false };
const secret = { from: { kind: "variable", name: "TOKEN" }, as: { kind: "bearer" } };
const opened = await Egress.open(
  null,
  {
    allow: [
      { ...usual, host: PASSING, paths: [], secret: null },
      { ...usual, host: SEEN, paths: ["/"], secret },
    ],
    certificates: [certificates],
  },
  {
    resolve: async () => ["127.0.0.1"],
    variable: () => "a-token-of-the-bench",
    onRequest: () => undefined,
    now: () => Date.now(),
    limits: EGRESS_LIMITS,
  },
);
if (!opened.ok) throw new Error(opened.fault.message);
const egress = opened.value;
const proxy = createServer({ allowHalfOpen: true }, (socket) => egress.serve(socket));
const proxyPort = await listening(proxy);
const ca = origins.certificate + egress.certificates;

const small = await compared("/", ROUNDS);
const large = await compared("/large", LARGE_ROUNDS);
report("a request on a new connection", small, "ms", LIMITS.passing, LIMITS.seen);
report("64 MiB over TLS", large, "ms", LIMITS.largePassing, LIMITS.largeSeen);
egress.close();
for (const server of [proxy, origin]) server.close();
origin.closeAllConnections();
rmSync(scratch, { recursive: true, force: true });
process.exit();

/** @param {string} path @param {number} rounds */
async function compared(path, rounds) {
  /** @type {{ direct: number[], passing: number[], seen: number[] }} */
  const took = { direct: [], passing: [], seen: [] };
  for (let round = -2; round < rounds; round++) {
    const direct = await fetched(PASSING, path, null);
    const passing = await fetched(PASSING, path, proxyPort);
    const seen = await fetched(SEEN, path, proxyPort);
    if (round < 0) continue;
    took.direct.push(direct);
    took.passing.push(passing);
    took.seen.push(seen);
  }
  return took;
}

/** @param {string} name @param {string} path @param {number | null} via */
async function fetched(name, path, via) {
  const beganMs = performance.now();
  const socket = via === null ? connect(port, "127.0.0.1") : await tunnel(`${name}:${port}`, via);
  const inside = connectTls({ socket, servername: name, ca });
  await new Promise((resolve, reject) => {
    inside.once("error", reject);
    const headers = { host: `${name}:${port}` };
    request({ createConnection: () => inside, path, headers }, (answer) => {
      answer.on("data", () => undefined);
      answer.once("end", resolve);
    }).end();
  });
  inside.destroy();
  return performance.now() - beganMs;
}

/** @param {string} target @param {number} via @returns {Promise<import("node:net").Socket>} */
function tunnel(target, via) {
  return new Promise((resolve, reject) => {
    const asked = request({
      ...{ host: "127.0.0.1", port: via, method: "CONNECT", path: target },
      headers: { host: target },
    });
    asked.once("connect", (_, socket) => resolve(/** @type {never} */ (socket)));
    asked.once("error", reject);
    asked.end();
  });
}

/** @param {import("node:net").Server} server @returns {Promise<number>} */
function listening(server) {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      resolve(typeof address === "object" && address ? address.port : 0);
    });
  });
}

/**
 * @param {string} what
 * @param {{ direct: number[], passing: number[], seen: number[] }} took
 * @param {string} unit
 * @param {number} passingLimit
 * @param {number} seenLimit
 */
function report(what, { direct, passing, seen }, unit, passingLimit, seenLimit) {
  const base = median(direct);
  const one = median(passing) / base;
  const other = median(seen) / base;
  process.stdout.write(
    `egress: ${what}: ${base.toFixed(2)} ${unit} direct, passing through ${one.toFixed(2)} times that (limit ${passingLimit}), seen, with a secret, ${other.toFixed(2)} times (limit ${seenLimit}), ${direct.length} rounds\n`,
  );
  if (one > passingLimit || other > seenLimit) process.exitCode = 1;
}

/** @param {number[]} values */
function median(values) {
  return values.toSorted((one, other) => one - other)[values.length >> 1] ?? 0;
}
