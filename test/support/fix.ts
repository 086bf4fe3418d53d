import { spawnSync } from "node:child_process";
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { type Desk, openDesk } from "./dev.ts";

/** A small project with a command that fails in it. */
export type Project = {
  readonly files: Readonly<Record<string, string>>;
  readonly argv: readonly string[];
};

/** A file of tests of one function of the module of its name. */
export function NODE_TEST(name: string, ...asserts: readonly string[]): string {
  const tests = asserts.map((text, at) => `test("${name} ${at}", () => { ${text} });\n`);
  return `const assert = require("node:assert/strict");
const { test } = require("node:test");
const { ${name} } = require("./${name}.js");
${tests.join("")}`;
}

/** A fault of one token, which its tests tell from all else that is near. */
export const FAULTY: Project = {
  files: {
    "clamp.js": `exports.clamp = (value, low, high) => {
  if (value < low) return low;
  if (value < high) return high;
  return value;
};
`,
    "clamp.test.js": NODE_TEST(
      "clamp",
      "assert.equal(clamp(1, 2, 9), 2);",
      "assert.equal(clamp(5, 2, 9), 5); assert.equal(clamp(8, 2, 9), 8);",
      "assert.equal(clamp(12, 2, 9), 9); assert.equal(clamp(3, 2, 9), 3);",
    ),
  },
  argv: ["node", "--test"],
};

/** The arguments of `dev` that fix a project without a model. */
export function fixing({ argv }: Project, ...flags: readonly string[]): readonly string[] {
  return ["fix", "--no-model", ...flags, "--", ...argv];
}

export async function onDesk<T>(project: Project, use: (desk: Desk) => Promise<T>): Promise<T> {
  const desk = await openDesk([], project.files);
  try {
    return await use(desk);
  } finally {
    await desk.close();
  }
}

/** What is in a directory, to the byte and the time of change; but for what git writes down for itself. */
export function snapshot(directory: string, below = ""): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const name of readdirSync(join(directory, below)).sort()) {
    const path = below === "" ? name : `${below}/${name}`;
    if (path === ".git") continue;
    const stat = lstatSync(join(directory, path));
    const mode = (stat.mode & 0o7777).toString(8);
    if (stat.isDirectory()) {
      found.set(path, `directory ${mode}`);
      for (const [inner, what] of snapshot(directory, path)) found.set(inner, what);
    } else if (stat.isSymbolicLink()) {
      found.set(path, `link ${readlinkSync(join(directory, path))}`);
    } else {
      found.set(path, `${mode} ${stat.mtimeMs} ${readFileSync(join(directory, path), "latin1")}`);
    }
  }
  return found;
}

/** What a run has left of its copies, and processes that still name them. */
export function leftBy({ home }: Desk): readonly string[] {
  const runs = join(home, "kai/runs");
  return [...readdirSync(runs), ...processesIn(runs)];
}

/** Processes that work in a directory, or name it. */
export function processesIn(directory: string): readonly string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
        const cwd = readlinkSync(`/proc/${pid}/cwd`);
        const isThere = cwd.startsWith(directory) || words.includes(directory);
        return isThere ? [`${pid} ${words}`] : [];
      } catch {
        // It has ended meanwhile.
        return [];
      }
    });
}

/** Whether a program is on this machine. */
export function has([program, ...args]: readonly [string, ...string[]]): boolean {
  return spawnSync(program, args, { stdio: "ignore" }).status === 0;
}
