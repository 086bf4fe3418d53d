import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Fault } from "@dev/protocol";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type AgentFile, agentKinds } from "../src/agents.ts";

let root: string;
const project = (): string => join(root, "project");
const inner = (): string => join(root, "project", "inner");

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "agents-"));
  mkdirSync(join(project(), ".git"), { recursive: true });
  mkdirSync(inner());
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function put(path: string, text: string | Uint8Array): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

function kind(name: string, more = "", body = `You are the ${name}.`): string {
  return `---\nname: ${name}\ndescription: for ${name}s\n${more}---\n${body}\n`;
}

function kinds(directory: string = project()): readonly AgentFile[] {
  const read = agentKinds(directory, refuse);
  if (!read.ok) throw new Error(`${read.fault.subject}: ${read.fault.message}`);
  return read.value;
}

function refuse(fault: Fault): void {
  throw new Error(`${fault.subject} was passed over: ${fault.message}`);
}

function flaw(text: string | Uint8Array): Fault {
  const path = put(join(project(), ".dev/agents/it.md"), text);
  const faults: Fault[] = [];
  const read = agentKinds(project(), (fault, isShared) => {
    expect(isShared).toBe(false);
    faults.push(fault);
  });
  expect(read).toEqual({ ok: true, value: [] });
  expect(faults.map(({ subject }) => subject)).toEqual([path]);
  return faults[0] ?? expect.fail("it was read");
}

test("a project without kinds has none", () => {
  expect(kinds()).toEqual([]);
  put(join(project(), ".dev/agents/notes.txt"), "no kind");
  mkdirSync(join(project(), ".dev/agents/directory.md"));
  expect(kinds()).toEqual([]);
});

test("a kind has its fields, and is told who it is before what the project says", () => {
  const path = put(
    join(project(), ".agents/agents/reviewer.md"),
    kind("reviewer", "tools: [read, search]\nmodel: local/small\n", "Look for faults."),
  );
  put(join(project(), "AGENTS.md"), "the project says");
  const [found, ...others] = kinds(inner());
  expect(others).toEqual([]);
  expect(found).toMatchObject({ name: "reviewer", description: "for reviewers", path });
  expect(found).toMatchObject({ model: "local/small", tools: ["read", "search"] });
  const told = found?.prelude ?? "";
  const order = ["You are Dev", "Look for faults.", "the project says"].map((text) =>
    told.indexOf(text),
  );
  expect(order).toEqual(order.toSorted((a, b) => a - b));
  expect(order[0]).toBe(0);
});

test("the README's example is a kind", () => {
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  put(join(project(), ".dev/agents/it.md"), /^```md\n(.*?)^```$/ms.exec(readme)?.[1] ?? "");
  const described = { name: "reviewer", tools: ["read", "search"], model: "local/some-model" };
  expect(kinds()).toMatchObject([described]);
});

test("of one name the nearest counts, and .dev before .agents", () => {
  put(join(project(), ".dev/agents/a.md"), kind("helper", "", "far"));
  put(join(project(), ".agents/agents/b.md"), kind("other", "", "far"));
  put(join(inner(), ".agents/agents/z.md"), kind("helper", "", "near, of all"));
  put(join(inner(), ".dev/agents/z.md"), kind("helper", "", "near, ours"));
  const found = kinds(inner());
  expect(found.map(({ name, prelude }) => [name, prelude.split("\n").at(-1)])).toEqual([
    ["helper", "near, ours"],
    ["other", "far"],
  ]);
});

test.each([
  ["commas", "tools: read, search\n"],
  ["brackets", "tools: [ read, 'search' ] # both\n"],
  ["dashes", 'tools:\n  - read\n\n  # and\n  - "search"\n'],
  ["dashes at the margin", "tools: # these\n- read\n- search\n"],
])("a list of tools is written with %s", (_, written) => {
  put(join(project(), ".dev/agents/it.md"), kind("it", written));
  expect(kinds()[0]?.tools).toEqual(["read", "search"]);
});

test("no tools are none, and not all", () => {
  put(join(project(), ".dev/agents/it.md"), kind("it", "tools: []\n"));
  expect(kinds()[0]?.tools).toEqual([]);
});

test.each([
  ["plain: with a colon, and an # that is text#", "plain: with a colon, and an"],
  ["a#b", "a#b"],
  ['"in \\"quotes\\" # kept" # dropped', 'in "quotes" # kept'],
  ["'it''s'", "it's"],
])("a description %s is read as YAML reads it", (written, meant) => {
  const path = join(project(), ".dev/agents/it.md");
  put(path, `\ufeff---\r\nname: it\r\ndescription: ${written}\r\n---\r\nBe it.\r\n`);
  expect(kinds()[0]?.description).toBe(meant);
});

test.each([
  ["no fields", "just text", "it must begin with fields"],
  ["no end of them", "---\nname: it\n", "it must begin with fields"],
  ["no name", "---\ndescription: x\n---\nbody", "name: it takes"],
  ["a bad name", kind("../it"), "name: it takes"],
  ["no description", "---\nname: it\n---\nbody", "description: it must say"],
  ["a long description", kind("it").replace("for", "x".repeat(1025)), "description: it has over"],
  ["a block", "---\nname: it\ndescription: >\n  folded\n---\nbody", "line 4: it is no field"],
  ["a block of one line", "---\nname: it\ndescription: |\n---\nb", "description: it takes a text"],
  ["a text that is a list", kind("it", "model: [a/b]\n"), "model: it takes a text"],
  ["a field twice", kind("it", "name: it\n"), "name: it stands there twice"],
  ["an open quote", kind("it", "model: 'a/b\n"), "model: it takes a text"],
  ["a model without a provider", kind("it", "model: small\n"), "model: it is written provider/"],
  ["a tool that there is not", kind("it", "tools: read, Bash\n"), 'no tool "Bash"; there are read'],
  ["a list of nothing", kind("it", "tools:\n"), "tools: it takes a list"],
  ["a list with a gap", kind("it", "tools: read,,exec\n"), "tools: it takes a list"],
  [
    "a field that narrows, elsewhere",
    kind("it", "denied: exec\n"),
    "denied: there is no such field",
  ],
  ["nothing to say", kind("it", "", " "), "below its fields"],
  ["bytes", Buffer.from("---\nname: \xff\n---\n", "latin1"), "not UTF-8"],
])("a file with %s is refused, and says why", (_, text, why) => {
  const fault = flaw(text);
  expect(fault.code).toBe("config");
  expect(fault.message).toContain(why);
});

test("every file that is broken is told of, and whether it is of those that other tools write", () => {
  const own = put(join(project(), ".dev/agents/a.md"), "no fields");
  const path = put(join(project(), ".agents/agents/it.md"), kind("it", "tools: Bash\n"));
  put(join(project(), ".agents/agents/reviewer.md"), kind("reviewer"));
  const faults: (readonly [string, boolean])[] = [];
  const read = agentKinds(project(), ({ subject }, isShared) => faults.push([subject, isShared]));
  expect(read.ok && read.value.map(({ name }) => name)).toEqual(["reviewer"]);
  expect(faults).toEqual([
    [own, false],
    [path, true],
  ]);
});

test("a file over its limit is refused", () => {
  expect(flaw(kind("it", "", "x".repeat(64 * 1024))).code).toBe("too_large");
});

test("more kinds than the limit are refused, and so is what they are told when it is too much", () => {
  const fill = (count: number, body: string): void => {
    for (let at = 0; at < count; at++) {
      put(join(project(), `.dev/agents/${at}.md`), kind(`kind-${at}`, "", body));
    }
  };
  fill(64, "short");
  expect(kinds()).toHaveLength(64);
  fill(40, "x".repeat(60 * 1024));
  expect(agentKinds(project(), refuse)).toMatchObject({ ok: false, fault: { code: "too_large" } });
  fill(65, "short");
  expect(agentKinds(project(), refuse)).toMatchObject({ ok: false, fault: { code: "config" } });
});

test("a link that leaves the repository is not followed, and one within it is", () => {
  const outside = put(join(root, "outside/it.md"), kind("it"));
  mkdirSync(join(project(), ".dev/agents"), { recursive: true });
  symlinkSync(outside, join(project(), ".dev/agents/it.md"));
  symlinkSync(dirname(outside), join(project(), ".agents"));
  expect(kinds()).toEqual([]);
  rmSync(join(project(), ".dev/agents/it.md"));
  symlinkSync(put(join(project(), "docs/it.md"), kind("it")), join(project(), ".dev/agents/it.md"));
  expect(kinds().map(({ name }) => name)).toEqual(["it"]);
});

test.each([".dev/agents", ".agents/agents"])(
  "a FIFO in %s describes nothing, and nothing waits for it",
  (place) => {
    put(join(project(), place, "reviewer.md"), kind("reviewer"));
    execFileSync("mkfifo", [join(project(), place, "a.md")]);
    expect(kinds().map(({ name }) => name)).toEqual(["reviewer"]);
  },
);
