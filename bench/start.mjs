// From the start of `dev exec` to the first byte of its first model request, as a multiple of what
// `node -e 0` takes, both measured in turn in one run.
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROUNDS = Number(process.env.ROUNDS ?? 15);
/** The most that a start may take, in starts of Node itself. */
export const LIMIT_RATIO = 2.5;

const dev = fileURLToPath(new URL("../packages/cli/bin/dev.cjs", import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), "dev-bench-start-"));
const project = join(scratch, "project");
mkdirSync(project);

/** When the first byte of the next request arrives, in ms of this process's clock. */
let arrived = (/** @type {number} */ _ms) => {};
const server = createServer((request, response) => {
  request.resume();
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.end(
    'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
  );
});
server.on("connection", (socket) => socket.once("data", () => arrived(performance.now())));
await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
const address = server.address();
const port = typeof address === "object" && address ? address.port : 0;
writeFileSync(
  join(scratch, "config.toml"),
  `model = "local/m"\n[providers.local]\nwire = "openai-chat"\nbase_url = "http://127.0.0.1:${port}/v1"\n`,
);

const bare = [];
const ours = [];
for (let round = 0; round <= ROUNDS; round++) {
  const beganMs = performance.now();
  spawnSync(process.execPath, ["-e", "0"]);
  const bareMs = performance.now() - beganMs;
  const oursMs = await start();
  // The first round fills the caches of the disk.
  if (round === 0) continue;
  bare.push(bareMs);
  ours.push(oursMs);
}
server.close();
rmSync(scratch, { recursive: true, force: true });
const ratio = median(ours) / median(bare);
process.stdout.write(
  `start: node -e 0 ${median(bare).toFixed(1)} ms, first byte of dev exec ${median(ours).toFixed(1)} ms, ratio ${ratio.toFixed(2)} (limit ${LIMIT_RATIO}), ${ROUNDS} rounds\n`,
);
if (ratio > LIMIT_RATIO) process.exitCode = 1;

async function start() {
  const beganMs = performance.now();
  const arrival = new Promise((resolve) => {
    arrived = resolve;
  });
  const child = spawn(process.execPath, [dev, "exec", "-C", project, "hello"], {
    env: { ...process.env, DEV_HOME: scratch },
    stdio: "ignore",
  });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const atMs = Number(await Promise.race([arrival, exited.then(() => Number.NaN)]));
  await exited;
  if (Number.isNaN(atMs)) throw new Error("dev exec asked no model");
  return atMs - beganMs;
}

function median(/** @type {number[]} */ values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? Number.NaN;
}
