import type {
  Action,
  ActionId,
  AgentId,
  Digest,
  Event,
  Op,
  Outcome,
  TurnId,
} from "../src/index.ts";

/*
 * One value of every kind of event and action, with every kind of outcome, result, call and message
 * among them. The golden files hold their bytes; a new kind does not compile until it has a value.
 */

const BEFORE = "ab".repeat(32) as Digest;
const AFTER = "0123456789abcdef".repeat(4) as Digest;
const CALLED = 7 as ActionId;

const FAULT = {
  code: "not_found",
  message: "there is no such file",
  subject: "src/main.ts",
  mend: "list the directory",
} as const;

export const EVENTS: { readonly [Kind in Event["kind"]]: readonly Event[] } = {
  turn: [
    {
      kind: "turn",
      id: 1 as TurnId,
      prompt: "Make the tests pass ✓",
      images: [{ mediaType: "image/png", data: "iVBORw0KGgo=" }],
      mode: "edits",
    },
    { kind: "turn", id: (2 ** 53 - 1) as TurnId, prompt: "", images: [], mode: "plan" },
  ],
  model: [
    {
      kind: "model",
      id: 3 as ActionId,
      answer: {
        kind: "reply",
        text: "I will look.",
        reasoning: "First the tests.",
        calls: [
          { ref: "c1", op: { kind: "read", path: "src/main.ts", from: 1, to: 80 } },
          { ref: "c2", op: { kind: "spawn", prompt: "Find it", agent: "scout", tools: ["read"] } },
          {
            ref: "c3",
            op: {
              kind: "plan",
              items: [
                { text: "look", status: "done" },
                { text: "mend", status: "active" },
                { text: "test", status: "pending" },
              ],
            },
          },
          {
            ref: "c4",
            op: { kind: "invalid", name: "reed", reason: "no such tool", arguments: "{" },
          },
        ],
        stop: "calls",
        opaque: "{}",
      },
      usage: { inputTokens: 1200, cachedTokens: 1000, outputTokens: 80, reasoningTokens: 20 },
      costMicroUsd: 1234,
    },
    {
      kind: "model",
      id: 4 as ActionId,
      answer: { kind: "failed", fault: { ...FAULT, code: "cut" }, partial: "I wi" },
      usage: { inputTokens: 0, cachedTokens: 0, outputTokens: 0, reasoningTokens: 0 },
      costMicroUsd: 0,
    },
    {
      kind: "model",
      id: 5 as ActionId,
      answer: { kind: "cancelled", partial: "" },
      usage: { inputTokens: 1, cachedTokens: 2, outputTokens: 3, reasoningTokens: 4 },
      costMicroUsd: 5,
    },
  ],
  exec: [
    ended({
      kind: "ok",
      result: {
        kind: "exec",
        end: { kind: "exit", code: 1 },
        stdout: "ok 1\nnot ok 2\n",
        stderr: "1 failed\n",
        stdoutCutBytes: 0,
        stderrCutBytes: 4096,
        durationMs: 1250,
        outputPath: ".dev/output/7",
      },
    }),
    ...(
      [
        { kind: "exit", code: -1 },
        { kind: "signal", signal: "SIGKILL" },
        { kind: "timeout", afterMs: 120_000 },
        { kind: "background", name: "b1" },
      ] as const
    ).map((end) =>
      ended({
        kind: "ok",
        result: {
          kind: "exec",
          end,
          stdout: "",
          stderr: "",
          stdoutCutBytes: 0,
          stderrCutBytes: 0,
          durationMs: 0,
          outputPath: "",
        },
      }),
    ),
    ended({ kind: "failed", fault: { ...FAULT, code: "spawn" } }),
    ended({ kind: "refused", rule: "no-push", reason: "a person said no" }),
    ended({ kind: "unknown", known: "dispatched, and the spool is lost" }),
    ended({ kind: "cancelled", known: "killed after 3 s" }),
  ],
  file: [
    {
      kind: "file",
      id: CALLED,
      outcome: {
        kind: "ok",
        result: {
          kind: "read",
          text: "\ufeffexport {};\r\n",
          lossy: true,
          sizeBytes: 2 ** 40,
          lineCount: 2,
          digest: BEFORE,
          cut: true,
        },
      },
    },
    {
      kind: "file",
      id: CALLED,
      outcome: {
        kind: "ok",
        result: {
          kind: "write",
          before: "absent",
          after: AFTER,
          sizeBytes: 12,
          addedLines: 1,
          removedLines: 0,
        },
      },
    },
    {
      kind: "file",
      id: CALLED,
      outcome: {
        kind: "ok",
        result: {
          kind: "write",
          before: BEFORE,
          after: AFTER,
          sizeBytes: 12,
          addedLines: 1,
          removedLines: 3,
        },
      },
    },
    {
      kind: "file",
      id: CALLED,
      outcome: {
        kind: "ok",
        result: {
          kind: "search",
          matches: [
            { path: "src/a.ts", line: 12, text: "const a = 1;" },
            { path: "src/b.ts", line: 0, text: "" },
          ],
          cut: true,
        },
      },
    },
  ],
  git: [{ kind: "git", id: CALLED, outcome: { kind: "failed", fault: FAULT } }],
  browse: [
    {
      kind: "browse",
      id: CALLED,
      outcome: {
        kind: "ok",
        result: {
          kind: "browse",
          status: 404,
          headers: [{ name: "content-type", value: "text/html" }],
          body: "<h1>No</h1>",
          cutBytes: 9,
        },
      },
    },
  ],
  tool: [
    {
      kind: "tool",
      id: CALLED,
      outcome: { kind: "ok", result: { kind: "tool", text: "42", failed: true } },
    },
  ],
  reply: [{ kind: "reply", id: 8 as ActionId, text: "both", choices: ["left", "", "right"] }],
  timer: [{ kind: "timer" }],
  steer: [{ kind: "steer", text: "mind the locks" }],
  cancel: [{ kind: "cancel", turn: 1 as TurnId }],
};

const OPS: { readonly [Kind in Op["kind"]]: readonly Op[] } = {
  model: [
    {
      kind: "model",
      purpose: "turn",
      model: "local/small",
      effort: "high",
      from: 0,
      prelude: "You are Dev.",
      messages: [
        { kind: "user", text: "hello", images: [{ mediaType: "image/png", data: "AA==" }] },
        {
          kind: "assistant",
          text: "",
          reasoning: "hm",
          calls: [{ ref: "c1", op: { kind: "git", argv: ["status", "--short"] } }],
          opaque: "[1]",
        },
        { kind: "tool", ref: "c1", text: "clean", failed: false },
      ],
      tools: [{ name: "git", description: "Runs git", parameters: '{"type":"object"}' }],
    },
    {
      kind: "model",
      purpose: "compact",
      model: "local/small",
      effort: "default",
      from: 12,
      prelude: "",
      messages: [],
      tools: [],
    },
  ],
  read: [{ kind: "read", path: "README.md", from: 0, to: 0 }],
  search: [{ kind: "search", pattern: "read|write", path: ".", glob: "*.ts", match: "name" }],
  write: [
    { kind: "write", path: "a.txt", text: "a\n", expect: "absent" },
    { kind: "write", path: "a.txt", text: "", expect: BEFORE },
  ],
  patch: [
    {
      kind: "patch",
      path: "a.txt",
      change: {
        kind: "edits",
        edits: [
          { old: "a", new: "" },
          { old: "\t", new: "  " },
        ],
      },
      expect: "any",
    },
    {
      kind: "patch",
      path: "a.txt",
      change: { kind: "diff", diff: "@@ -1 +1 @@\n" },
      expect: AFTER,
    },
  ],
  exec: [
    {
      kind: "exec",
      argv: ["npm", "test", ""],
      cwd: "packages/core",
      env: [{ name: "CI", value: "1" }],
      stdin: "y\n",
      timeoutMs: 60_000,
      background: true,
    },
  ],
  git: [{ kind: "git", argv: ["log", "-1"] }],
  browse: [
    {
      kind: "browse",
      url: "https://example.org/",
      method: "POST",
      headers: [{ name: "accept", value: "*/*" }],
      body: "q=1",
    },
  ],
  tool: [{ kind: "tool", server: "tickets", name: "find", arguments: '{"id":1}' }],
  question: [{ kind: "question", text: "Which?", choices: ["left", "right"], many: true }],
  emit: [{ kind: "emit", text: "Done." }],
  save: [{ kind: "save" }],
  done: [{ kind: "done", turn: 1 as TurnId, outcome: "limit", reason: "200 model calls" }],
};

/** An action of each of the ops, by the op's kind. */
export const ACTIONS: ReadonlyMap<string, readonly Action[]> = new Map(
  Object.entries(OPS).map(([kind, ops]) => [
    kind,
    ops.map((op) => ({ id: 9 as ActionId, agent: 2 as AgentId, turn: 1 as TurnId, op })),
  ]),
);

function ended(outcome: Outcome): Event {
  return { kind: "exec", id: CALLED, outcome };
}
