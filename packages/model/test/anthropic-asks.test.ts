import type { Message } from "@dev/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Ask, toolSpecs } from "../src/index.ts";
import {
  begun,
  called,
  ended,
  hear,
  kept,
  reply,
  result,
  STOP,
  said,
  started,
  stopped,
  thought,
  user,
} from "./anthropic-notation.ts";
import { askOnce, openEndpoint } from "./endpoint.ts";

type Body = {
  readonly messages: readonly { role: string; content: readonly Record<string, unknown>[] }[];
  readonly [field: string]: unknown;
};

/** What is sent for an ask; `as` is how it is set up. */
async function sent(
  ask: Partial<Ask>,
  known: Parameters<typeof askOnce>[0]["models"] = {},
): Promise<{ readonly body: Body; readonly text: string }> {
  await using endpoint = await openEndpoint((response) => void response.writeHead(501).end());
  await askOnce({ wire: "anthropic", url: endpoint.url, ask, models: known });
  const text = endpoint.bodies[0] ?? "";
  return { body: JSON.parse(text), text };
}

const text = (of: string) => ({ type: "text", text: of });
const MARK = { cache_control: { type: "ephemeral" } };
const UNMARKED = /,"cache_control":\{"type":"ephemeral"\}/g;

test("a request has its limits first and its messages last, and says what to cache", async () => {
  const [spec] = toolSpecs(["read"]);
  const { body } = await sent({
    tools: spec ? [spec] : [],
    messages: [
      { kind: "user", text: "Look", images: [{ mediaType: "image/png", data: "aGk=" }] },
      reply("I shall", ["a", "b"]),
      result("a"),
      { kind: "tool", ref: "b", text: "", failed: true },
      user("and hurry"),
    ],
  });
  const call = (id: string) => ({ type: "tool_use", id, name: "read", input: { path: "a" } });
  expect(body).toEqual({
    model: "some/model",
    max_tokens: 32_000,
    stream: true,
    ...MARK,
    tools: [
      {
        name: "read",
        description: spec?.description,
        input_schema: JSON.parse(spec?.parameters ?? ""),
        ...MARK,
      },
    ],
    system: [{ ...text("You are Dev."), ...MARK }],
    messages: [
      {
        role: "user",
        content: [
          { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } },
          text("Look"),
        ],
      },
      { role: "assistant", content: [text("I shall"), call("a"), call("b")] },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "a", content: "found" },
          { type: "tool_result", tool_use_id: "b", content: "(no text)", is_error: true },
          text("and hurry"),
        ],
      },
    ],
  });
  expect(Object.keys(body).at(-1)).toBe("messages");
});

test("the key goes in a header of its own", async () => {
  let headers: NodeJS.Dict<string | string[]> = {};
  await using endpoint = await openEndpoint((response, request) => {
    headers = request.headers;
    response.writeHead(501).end();
  });
  await askOnce({ wire: "anthropic", url: endpoint.url, key: "k-1" });
  expect(headers).toMatchObject({ "x-api-key": "k-1", "anthropic-version": "2023-06-01" });
  expect(headers).not.toHaveProperty("authorization");
});

const GO_ON = "Go on.";

test.each<[string, readonly Message[], readonly (readonly [string, ...string[]])[]]>([
  ["nothing at all is gone on with", [], [["user", GO_ON]]],
  [
    "an assistant that comes first is asked to",
    [reply("A"), user("B")],
    [
      ["user", GO_ON],
      ["assistant", "A"],
      ["user", "B"],
    ],
  ],
  [
    "an assistant that comes last is gone on with",
    [user("A"), reply("B")],
    [
      ["user", "A"],
      ["assistant", "B"],
      ["user", GO_ON],
    ],
  ],
  [
    "two assistants in a row are two, as they were asked",
    [user("A"), reply("B"), reply("C")],
    [
      ["user", "A"],
      ["assistant", "B"],
      ["user", GO_ON],
      ["assistant", "C"],
      ["user", GO_ON],
    ],
  ],
  ["users in a row are one", [user("A"), user("B")], [["user", "A", "B"]]],
  [
    "texts of nothing but space are left out",
    [user("A"), reply(" \n"), user(" "), user("B")],
    [["user", "A", "B"]],
  ],
  [
    "results come first",
    [user("A"), reply("B", ["x"]), user("C"), result("x", "D")],
    [
      ["user", "A"],
      ["assistant", "B", "x"],
      ["user", "D", "C"],
    ],
  ],
])("%s", async (_, messages, turns) => {
  const { body } = await sent({ messages });
  const told = body.messages.map(({ role, content }) => [
    role,
    ...content.map((block) => block.text ?? block.content ?? block.id),
  ]);
  expect(told).toEqual(turns);
});

const HI = [user("hi")];

test("thinking goes back as it came, each block in its place", async () => {
  const asked = await hear(
    [
      started(),
      thought(0, "one", "s1"),
      begun(1, { type: "redacted_thinking", data: "r1" }) + ended(1),
      said(2, "Let me see. "),
      thought(3, "", "s2"),
      said(4, "There: "),
      called(5, "x", '{"path":"a"}'),
      stopped("tool_use"),
      STOP,
    ],
    { messages: HI },
  );
  expect(asked.answer).toMatchObject({ text: "Let me see. There: ", reasoning: "one" });
  const { body } = await sent({ messages: [...HI, kept(asked), result("x")] });
  expect(body.messages[1]?.content).toEqual([
    { type: "thinking", thinking: "one", signature: "s1" },
    { type: "redacted_thinking", data: "r1" },
    text("Let me see. "),
    { type: "thinking", thinking: "", signature: "s2" },
    text("There: "),
    { type: "tool_use", id: "x", name: "read", input: { path: "a" } },
  ]);
});

/** A conversation of two replies, each with thinking. */
async function thoughtful(): Promise<readonly Message[]> {
  const reply = (count: number) => [
    thought(0, "hm", `s${count}`),
    called(1, `x${count}`, '{"path":"a"}'),
    stopped("tool_use"),
    STOP,
  ];
  const first = [...HI, kept(await hear(reply(1), { messages: HI })), result("x1")];
  return [...first, kept(await hear(reply(2), { messages: first })), result("x2")];
}

const signatures = ({ messages }: Body) =>
  messages.flatMap(({ content }) => content.flatMap(({ signature }) => signature ?? []));

test("thinking goes to no other model, and not past a change in what came before it", async () => {
  const messages = await thoughtful();
  const [prompt, first, found, second, last] = messages;
  if (!prompt || !first || !found || !second || !last) throw new Error("a message is missing");
  const seen = async (ask: Partial<Ask>) => signatures((await sent(ask)).body);
  expect(await seen({ messages })).toEqual(["s1", "s2"]);
  expect(await seen({ messages: [...messages, reply("done"), user("more")] })).toHaveLength(2);
  expect(await seen({ messages, model: "test/other" })).toEqual([]);
  expect(await seen({ messages, prelude: "You are another." })).toEqual([]);
  expect(await seen({ messages, tools: toolSpecs(["read"]) })).toEqual([]);
  // What compaction leaves of it.
  expect(await seen({ messages: [user("a summary"), second, last] })).toEqual([]);
  // Were the first left, it would be thinking with thinking missing behind it.
  expect(await seen({ messages: [prompt, first, result("x1", "else"), second, last] })).toEqual([]);
});

test.each(["level", "budget"] as const)(
  "with thinking told by %s, a request begins with the one before",
  async (reasoning) => {
    const messages = [...(await thoughtful()), reply("done"), user("more")];
    const models = { "test/some/model": { reasoning } };
    const bodies: string[] = [];
    for (const count of [1, 3, 5, 7]) {
      bodies.push(
        (await sent({ messages: messages.slice(0, count), effort: "high" }, models)).text,
      );
    }
    for (const [index, body] of bodies.entries()) {
      expect(body.startsWith((bodies[index - 1] ?? "").replace(/[\]}]*$/, ""))).toBe(true);
    }
    expect(bodies.at(-1)).toContain('"signature":"s2"');
  },
);

test.each([
  "{",
  "[]",
  '{"wire":"openai-responses","model":"test/some/model","before":"","blocks":[]}',
  '{"wire":"anthropic","model":"test/some/model","blocks":[{"type":"tool_use"}]}',
  '{"wire":"anthropic","model":"test/some/model","before":"","blocks":[{"type":"thinking"}]}',
  '{"wire":"anthropic","model":"test/some/model","before":"","blocks":[{"type":"text","units":-1}]}',
])("an opaque text that is none of this wire's is left alone: %s", async (opaque) => {
  const { body } = await sent({ messages: [...HI, reply("A", ["x"], opaque), result("x")] });
  expect(body.messages[1]?.content).toHaveLength(2);
});

test("thinking past its limit or without a signature is not kept", async () => {
  const opaque = async (pieces: readonly string[]) => kept(await hear(pieces)).opaque;
  expect(await opaque([thought(0, "hm", ""), said(1, "A"), stopped("end_turn")])).toBe("");
  expect(await opaque([thought(0, "hm", "s"), said(1, "A"), stopped("end_turn")])).toContain("hm");
  const long = thought(0, "x".repeat(1024 * 1024), "s");
  expect(await opaque([long, said(1, "A"), stopped("end_turn")])).toBe("");
});

test("a message whose calls were not kept does not end in the thinking that led to them", async () => {
  const pieces = [said(0, "A"), thought(1, "hm", "s"), called(2, "x", "{}"), stopped("refusal")];
  const message = { ...kept(await hear(pieces, { messages: HI })), calls: [] };
  const { body } = await sent({ messages: [...HI, message, user("B")] });
  expect(body.messages[1]?.content).toEqual([text("A")]);
});

test.each<[Ask["effort"], "level" | "budget" | "none" | null, number, object]>([
  ["default", "level", 0, {}],
  ["default", "budget", 0, {}],
  ["high", "none", 0, {}],
  ["high", "level", 128_000, { type: "adaptive", display: "summarized" }],
  ["low", "budget", 64_000, { type: "enabled", budget_tokens: 4_000 }],
  ["medium", null, 0, { type: "enabled", budget_tokens: 8_000 }],
  ["high", "budget", 64_000, { type: "enabled", budget_tokens: 16_000 }],
  ["high", "budget", 8_000, { type: "enabled", budget_tokens: 4_000 }],
  ["high", "budget", 2_000, {}],
])(
  "effort %s, told by %s, with %d tokens out",
  async (effort, reasoning, outputTokens, thinking) => {
    const models = { "test/some/model": { reasoning, outputTokens } };
    const { body } = await sent({ effort }, models);
    expect(body.thinking ?? {}).toEqual(thinking);
    expect(body.output_config).toEqual(
      reasoning === "level" && effort !== "default" ? { effort } : undefined,
    );
    expect(body.max_tokens).toBe(outputTokens === 0 ? 32_000 : Math.min(outputTokens, 64_000));
  },
);

test("a model with a budget that calls without thinking goes on without until a user speaks", async () => {
  const thinks = async (...messages: readonly Message[]) =>
    (await sent({ messages, effort: "high" })).body.thinking !== undefined;
  const plain = [user("A"), reply("", ["x"]), result("x")];
  expect(await thinks(user("A"))).toBe(true);
  expect(await thinks(...plain)).toBe(false);
  expect(await thinks(...plain, user("a steer"))).toBe(false);
  expect(await thinks(...plain, reply("done"), user("B"))).toBe(true);
  // Between the calls of one turn it does not think again, which is no reason to stop it.
  expect(await thinks(...(await thoughtful()), reply("", ["y"]), result("y"))).toBe(true);
});

test("arguments go back as they are, but for halves of characters", async () => {
  const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;
  const sendArguments = async (args: string) => {
    const op = { kind: "invalid", name: "x", reason: "", arguments: args } as const;
    const message = { ...reply("A"), calls: [{ ref: "call.1|fc", op }] };
    return (await sent({ messages: [...HI, message, result("call.1|fc")] })).text;
  };
  expect(await sendArguments(`{"deep":${deep}}`)).toContain(`"input":{"deep":${deep}}`);
  const halves = `${String.raw`{"a":"\ud83d\ude00 \ud83d \\ud83d \\\ude00","b":"`}\ud83d😀"}`;
  const whole = String.raw`{"a":"\ud83d\ude00 \ufffd \\ud83d \\\ufffd","b":"\ufffd😀"}`;
  const written = await sendArguments(halves);
  expect(written).toContain(`"input":${whole}`);
  expect(written.match(/call_2e1_7cfc/g)).toHaveLength(2);
});

test("the last request's end is marked when so much comes after it that it would not be found", async () => {
  const refs = Array.from({ length: 12 }, (_, index) => `x${index}`);
  const before = [user("A"), reply("B", ["y"]), result("y")];
  const after = [...before, reply("", refs), ...refs.map((ref) => result(ref))];
  const bodies = await Promise.all(
    [before, after, [...after, reply("done"), user("more")]].map((messages) => sent({ messages })),
  );
  const marks = bodies.map(({ text: body }) => body.match(UNMARKED)?.length);
  expect(marks).toEqual([2, 3, 2]);
  expect(bodies[1]?.body.messages[2]?.content.at(-1)).toMatchObject(MARK);
});

const someMessage: fc.Arbitrary<Message> = fc.oneof(
  fc.string({ maxLength: 4 }).map(user),
  fc
    .record({ text: fc.string({ maxLength: 4 }), refs: fc.uniqueArray(fc.constantFrom("x", "y")) })
    .map(({ text: words, refs }) => reply(words, refs)),
  fc.constantFrom("x", "y").map((ref) => result(ref)),
);

test("any conversation makes turns that the API takes", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(someMessage, { maxLength: 12 }), async (messages) => {
      const { body, text: written } = await sent({ messages });
      const roles = body.messages.map(({ role }) => role);
      expect(roles).toEqual(roles.map((_, index) => (index % 2 === 0 ? "user" : "assistant")));
      const end = body.messages.at(-1);
      expect(end?.role === "user" || end?.content.at(-1)?.type === "tool_use").toBe(true);
      for (const { content } of body.messages) {
        expect(content.length).toBeGreaterThan(0);
        const results = content.filter(({ type }) => type === "tool_result").length;
        expect(content.slice(0, results).every(({ type }) => type === "tool_result")).toBe(true);
        expect(
          content.every((block) => block.text === undefined || `${block.text}`.trim() !== ""),
        ).toBe(true);
      }
      expect(written.match(UNMARKED)?.length ?? 0).toBeLessThanOrEqual(4);
    }),
    { numRuns: 60 },
  );
});

test("whatever a turn has, its request without markers begins with the one before", async () => {
  const turn = fc.record({
    text: fc.string({ maxLength: 3 }),
    calls: fc.integer({ min: 0, max: 14 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(turn, { minLength: 1, maxLength: 5 }), async (turns) => {
      let messages: readonly Message[] = [user("begin")];
      let before = (await sent({ messages })).text;
      for (const [at, { text: words, calls }] of turns.entries()) {
        const refs = Array.from({ length: calls }, (_, index) => `r${at}x${index}`);
        const next = calls === 0 ? [user("next")] : refs.map((ref) => result(ref));
        messages = [...messages, reply(words || "A", refs), ...next];
        const now = (await sent({ messages })).text;
        const start = before.replace(/[\]}]*$/, "");
        expect(now.replaceAll(UNMARKED, "").startsWith(start.replaceAll(UNMARKED, ""))).toBe(true);
        before = now;
      }
    }),
    { numRuns: 25 },
  );
});
