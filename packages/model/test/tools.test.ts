import type { CallOp } from "@dev/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { OFFERED_TOOLS, parseCall, renderCall, toolSpecs } from "../src/index.ts";
import { TOOLS } from "../src/tools.ts";

const text = fc.string({ unit: "binary" });
const filled = fc.string({ unit: "binary", minLength: 1 });
const words = fc.array(text, { minLength: 1, maxLength: 5 });
const digest = fc.stringMatching(/^[0-9a-f]{64}$/);
const expectation = fc.oneof(fc.constantFrom("any", "absent"), digest);
const line = fc.integer({ min: 0, max: 2 ** 31 - 1 });
const variables = fc
  .uniqueArray(fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,8}$/), { maxLength: 4 })
  .chain((names) =>
    fc.tuple(...names.map((name) => fc.record({ name: fc.constant(name), value: text }))),
  );

const ops: Record<string, fc.Arbitrary<unknown>> = {
  read: fc
    .record({ kind: fc.constant("read"), path: text, from: line, to: line })
    .map((op) => ({ ...op, to: op.to === 0 ? 0 : Math.max(op.from, op.to) })),
  search: fc.record({
    kind: fc.constant("search"),
    pattern: filled,
    path: text,
    glob: text,
    match: fc.constantFrom("text", "name"),
  }),
  write: fc.record({ kind: fc.constant("write"), path: text, text, expect: expectation }),
  patch: fc.record({
    kind: fc.constant("patch"),
    path: text,
    change: fc.oneof(
      fc.record({
        kind: fc.constant("edits"),
        edits: fc.array(fc.record({ old: filled, new: text }), { minLength: 1, maxLength: 4 }),
      }),
      fc.record({ kind: fc.constant("diff"), diff: text }),
    ),
    expect: expectation,
  }),
  exec: fc.record({
    kind: fc.constant("exec"),
    argv: fc.oneof(
      words,
      text.map((command) => ["/bin/sh", "-c", command]),
    ),
    cwd: text,
    env: variables,
    stdin: text,
    timeoutMs: fc.integer({ min: 0, max: 86_400_000 }),
    background: fc.boolean(),
  }),
  fix: fc
    .record({
      argv: words.filter(([first]) => first !== undefined),
      timeoutSeconds: fc.option(fc.integer({ min: 1, max: 59 }), { nil: undefined }),
      modelCalls: fc.option(fc.integer({ min: 1, max: 6 }), { nil: undefined }),
    })
    .map((given) => ({
      kind: "tool",
      server: "dev",
      name: "fix",
      arguments: JSON.stringify(given),
    })),
  git: fc.record({ kind: fc.constant("git"), argv: words.filter(([first]) => first !== "git") }),
  question: fc.record({
    kind: fc.constant("question"),
    text: filled,
    choices: fc.array(text, { maxLength: 5 }),
    many: fc.boolean(),
  }),
  plan: fc.record({
    kind: fc.constant("plan"),
    items: fc.array(
      fc.record({ text: filled, status: fc.constantFrom("pending", "active", "done") }),
      { maxLength: 5 },
    ),
  }),
  spawn: fc.record({
    kind: fc.constant("spawn"),
    prompt: filled,
    agent: text,
    tools: fc.array(text, { maxLength: 3 }),
  }),
};

test("there is an op to try for every tool", () => {
  expect(Object.keys(ops).sort()).toEqual(TOOLS.map((tool) => tool.name).sort());
});

test.each(Object.entries(ops))("%s: what is rendered parses to the same op", (name, op) => {
  fc.assert(
    fc.property(op, (value) => {
      const rendered = renderCall(value as CallOp);
      expect(rendered.name).toBe(name);
      expect(parseCall(rendered.name, rendered.arguments)).toEqual(value);
      expect(renderCall(structuredClone(value) as CallOp)).toEqual(rendered);
    }),
  );
});

test("any name and any text at all give an op", () => {
  const names = fc.oneof(fc.string(), fc.constantFrom(...TOOLS.map((tool) => tool.name)));
  const texts = fc.oneof(
    fc.string(),
    fc.json(),
    fc.object().map((value) => JSON.stringify(value)),
  );
  fc.assert(
    fc.property(names, texts, (name, json) => {
      const op = parseCall(name, json);
      const rendered = renderCall(op);
      // Whatever it was, a provider takes it back.
      expect(rendered.name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
      expect(typeof JSON.parse(rendered.arguments)).toBe("object");
      if (op.kind === "invalid") expect([op.name, op.arguments]).toEqual([name, json]);
    }),
  );
});

test.each(Object.entries(ops))("%s: no half of its arguments is a call", (name, op) => {
  fc.assert(
    fc.property(
      op,
      fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
      (value, share) => {
        const whole = renderCall(value as CallOp).arguments;
        const half = whole.slice(0, Math.floor(whole.length * share));
        expect(parseCall(name, half).kind).toBe("invalid");
      },
    ),
  );
});

const reasonOf = (name: string, json: string): string => {
  const op = parseCall(name, json);
  return op.kind === "invalid" ? op.reason : `not invalid: ${JSON.stringify(op)}`;
};

test.each([
  ["read", "", "path: missing"],
  ["read", "{}", "path: missing"],
  ["read", '{"path":5}', "path: expected string, got 5"],
  ["read", '{"path":"a","line":3}', "line: not an argument of read, which takes path, from, to"],
  ["read", '{"path":"a","from":1.5}', "from: expected a whole number"],
  ["read", '{"path":"a","from":1e300}', "from: expected"],
  ["read", '{"path":"a","from":9,"to":3}', "to: expected 0 or a line at or after from (9), got 3"],
  ["read", '"{\\"path\\":\\"a\\"}"', "got a JSON string (was it encoded twice?)"],
  ["read", '{"path":"a"', "text that is not JSON (was it cut off?)"],
  ["read", '["a"]', "expected a JSON object"],
  ["read", "null", "expected a JSON object"],
  ["search", '{"pattern":""}', "pattern: expected a pattern that is not empty"],
  ["search", '{"pattern":"a","match":"both"}', 'match: expected ("text" | "name"), got "both"'],
  ["write", '{"path":"a"}', "text: missing"],
  ["write", '{"path":"a","text":"","expect":"new"}', "expect: expected any, absent, or a digest"],
  ["patch", '{"path":"a"}', "edits: missing"],
  ["patch", '{"path":"a","edits":[],"diff":""}', "edits: expected at least one edit"],
  ["patch", '{"path":"a","edits":[{"old":"x"}]}', "edits.0.new: missing"],
  ["patch", '{"path":"a","edits":[{"old":"","new":""}]}', "edits.0.old: expected the text"],
  ["patch", '{"path":"a","edits":[{"old":"x","new":""}],"diff":""}', "expected one, got both"],
  ["exec", "{}", "argv: missing"],
  ["exec", '{"argv":"ls -l"}', "argv: expected Array, got"],
  ["exec", '{"argv":["ls",3]}', "argv.1: expected string, got 3"],
  ["exec", '{"argv":["ls"],"command":"ls"}', "expected one, got both"],
  ["exec", '{"command":"ls","env":{"a b":"c"}}', 'env: expected names of variables, got "a b"'],
  ["exec", '{"command":"ls","timeoutMs":-1}', "timeoutMs: expected 0 or more"],
  ["git", '{"argv":["git"]}', "argv: expected a command of git"],
  ["plan", '{"items":[{"text":"x","status":"later"}]}', "items.0.status: expected"],
  ["shell", "{}", 'there is no tool named "shell"; there are read, search, write'],
])("%s %s says why it is invalid", (name, json, reason) => {
  expect(reasonOf(name, json)).toContain(reason);
});

test("null is an argument left out, and what is left out has its default", () => {
  expect(parseCall("read", '{"path":"a","from":null}')).toEqual({
    kind: "read",
    path: "a",
    from: 0,
    to: 0,
  });
  expect(parseCall("exec", '{"command":"a | b"}')).toMatchObject({
    argv: ["/bin/sh", "-c", "a | b"],
    cwd: ".",
    timeoutMs: 0,
  });
  expect(parseCall("git", '{"argv":["git","status"]}')).toEqual({ kind: "git", argv: ["status"] });
});

test("a call is rendered as the model gave it", () => {
  for (const [name, json] of [
    ["exec", '{"command":"ls"}'],
    ["exec", '{"argv":["ls","-l"],"env":{"B":"1","A":"2"}}'],
    ["read", '{"path":"a"}'],
  ] as const) {
    expect(renderCall(parseCall(name, json))).toEqual({ name, arguments: json });
  }
});

test("an invalid call is rendered so that a provider takes it", () => {
  const op = parseCall("my tool!", '{"half');
  expect(renderCall(op)).toEqual({ name: "my_tool_", arguments: '{"unreadable":"{\\"half"}' });
});

test("every tool is offered, each with a schema of its arguments", () => {
  expect(OFFERED_TOOLS).toEqual(TOOLS.map((tool) => tool.name));
  for (const spec of toolSpecs(OFFERED_TOOLS)) {
    expect(JSON.parse(spec.parameters)).toMatchObject({ type: "object" });
    expect(spec.description.length).toBeGreaterThan(40);
  }
});

test("a model that calls a tool there is not is told of those that it is offered, and no other", () => {
  const call = parseCall("shell", "{}");
  const reason = call.kind === "invalid" ? call.reason : "";
  expect(reason).toMatch(new RegExp(`; there are ${OFFERED_TOOLS.join(", ")}$`));
});

test("of spawn a model is told which kinds of agent there are, and when to use each", () => {
  const kinds = [
    { name: "reviewer", description: "When a change is done." },
    { name: "tester", description: "When there are no tests." },
  ];
  const [read, spawn] = toolSpecs(["read", "spawn"], kinds);
  expect(spawn?.description).toMatch(
    /there are:\n- reviewer: When a change is done\.\n- tester: When there are no tests\.$/,
  );
  expect(read).toEqual(toolSpecs(["read"])[0]);
  expect(toolSpecs(["spawn"])[0]?.description).toMatch(/There is no kind but the usual\.$/);
});
