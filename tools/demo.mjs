// The main jobs, end to end, on a copy of the sample project. First a slip in it is mended with no model
// at all; then the agent reads, patches, runs the tests in a cell, and its work is brought back. The
// model is a scripted server, so no key is needed.
import { spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { root } from "./step.mjs";

const PROMPT = "A test fails. Find out why, mend the cause, and show that all tests pass.";

const SCRIPT = [
  say("I will look at what fails.", call("exec", { argv: ["node", "--test"] })),
  say("", call("search", { pattern: "parseMoney" }), call("read", { path: "src/money.js" })),
  say(
    "`-0.50` loses its sign: the whole part of it is -0, and that is not below 0.",
    call("patch", {
      path: "src/money.js",
      edits: [
        {
          old: "return Number.parseInt(text, 10) < 0 ? -cents : cents;",
          new: 'return text.trim().startsWith("-") ? -cents : cents;',
        },
      ],
    }),
  ),
  say("", call("exec", { argv: ["node", "--test"] })),
  say("Mended: `parseMoney` took the sign from the whole part. All tests pass now."),
];

const scratch = mkdtempSync(join(tmpdir(), "dev-demo-"));
const project = join(scratch, "sample");
const home = join(scratch, "home");
const dev = join(root, "packages/cli/bin/dev.cjs");
const env = { ...process.env, DEV_HOME: home };

const model = await startModel();
try {
  cpSync(join(root, "examples/sample"), project, { recursive: true });
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(
    join(home, "config.toml"),
    `model = "scripted/demo"\n[providers.scripted]\nwire = "openai-chat"\nbase_url = "${model.url}"\n`,
  );
  plant("src/split.js", "index < rest", "index <= rest");
  title("dev fix --no-model -- node --test test/settle.test.js");
  run(["fix", "-C", project, "--no-model", "--", "node", "--test", "test/settle.test.js"]);
  process.stdout.write(
    "\nWhat is left takes a model. The one here is a scripted server: it says what one might, and needs no key.\n",
  );
  title(`dev exec --cell bubblewrap "${PROMPT}"`);
  run(["exec", "--cell", "bubblewrap", "-C", project, PROMPT]);
  const id = newestSession();
  title(`dev diff ${id}`);
  run(["diff", id]);
  title(`dev apply ${id}`);
  run(["apply", id]);
  title("node --test, in the project itself");
  const tested = spawnSync(process.execPath, ["--test"], { cwd: project, encoding: "utf8" });
  process.stdout.write(
    `${tested.stdout
      .split("\n")
      .filter((line) => /^# (pass|fail) /.test(line))
      .join("\n")}\n`,
  );
  if (tested.status !== 0) stop("the tests of the sample project still fail");
  title(`dev ledger ${id}`);
  run(["ledger", id]);
} finally {
  model.stop();
  rmSync(scratch, { recursive: true, force: true });
}

/** Puts a slip into a file of the project, which a test of it finds. */
function plant(
  /** @type {string} */ file,
  /** @type {string} */ right,
  /** @type {string} */ slip,
) {
  const path = join(project, file);
  const text = readFileSync(path, "utf8");
  if (!text.includes(right)) stop(`${file} has no "${right}"`);
  writeFileSync(path, text.replace(right, slip));
}

/** One step of the script: a text, and calls. */
function say(/** @type {string} */ text, /** @type {object[]} */ ...calls) {
  return { reply: { ...(text ? { text } : {}), ...(calls.length > 0 ? { calls } : {}) } };
}

function call(/** @type {string} */ tool, /** @type {object} */ args) {
  return { tool, arguments: args };
}

async function startModel() {
  const path = join(scratch, "script.json");
  writeFileSync(path, JSON.stringify(SCRIPT));
  const child = spawn(process.execPath, [join(root, "packages/model/dist/scripted.mjs"), path], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const url = await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).once("line", resolve);
    child.once("exit", (code) => reject(new Error(`the scripted model ended with ${code}`)));
  });
  return { url: String(url), stop: () => child.kill() };
}

function run(/** @type {string[]} */ args) {
  const ran = spawnSync(process.execPath, [dev, ...args], {
    env,
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (ran.status !== 0) stop(`dev ${args[0]} ended with ${ran.status ?? ran.signal}`);
}

function newestSession() {
  const listed = spawnSync(process.execPath, [dev, "sessions", "--json"], {
    env,
    encoding: "utf8",
  });
  const [first = "{}"] = listed.stdout.split("\n");
  return String(JSON.parse(first).id);
}

function title(/** @type {string} */ text) {
  process.stdout.write(`\n── ${text}\n`);
}

/** @returns {never} */
function stop(/** @type {string} */ why) {
  process.stderr.write(`demo: ${why}\n`);
  model.stop();
  process.exit(1);
}
