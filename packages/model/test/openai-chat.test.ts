import { expect, test } from "vitest";
import {
  mixedPieces,
  piecesOf,
  type Spoken,
  type WireNotation,
  wireConformance,
} from "./conformance.ts";
import { type Answer, type Asked, askOnce, openEndpoint } from "./endpoint.ts";

const chunk = (fields: object): string => `data: ${JSON.stringify(fields)}\n\n`;
const delta = (fields: object, finish: string | null = null): string =>
  chunk({ choices: [{ index: 0, delta: fields, finish_reason: finish }] });
const DONE = "data: [DONE]\n\n";

const FINISH = { end: "stop", calls: "tool_calls", length: "length", refusal: "content_filter" };

function usageOf({ usage }: Spoken): object {
  if (usage === null) return {};
  return {
    usage: {
      prompt_tokens: usage.inputTokens,
      completion_tokens: usage.outputTokens,
      prompt_tokens_details: { cached_tokens: usage.cachedTokens },
      completion_tokens_details: { reasoning_tokens: usage.reasoningTokens },
    },
  };
}

const toolCall = (ref: string, name: string, json: string, index?: number) => ({
  ...(index === undefined ? {} : { index }),
  id: ref,
  type: "function",
  function: { name, arguments: json },
});

const chatError = (code: string, message: string) => ({
  error: { message, code, type: "some_error" },
});
const spokenError = (code: string) => chunk(chatError(code, "sorry"));
const writtenError = (code: string) => JSON.stringify(chatError(code, "sorry"));

const NOTATION: WireNotation = {
  wire: "openai-chat",
  stream: (spoken) => [
    delta({ role: "assistant", content: "" }),
    ...piecesOf(spoken.reasoning, spoken.pieceUnits).map((reasoning_content) =>
      delta({ reasoning_content }),
    ),
    ...piecesOf(spoken.text, spoken.pieceUnits).map((content) => delta({ content })),
    ...spoken.calls.map((call, index) =>
      delta({ tool_calls: [toolCall(call.ref, call.name, "", index)] }),
    ),
    ...mixedPieces(spoken).map(([index, json]) =>
      delta({ tool_calls: [{ index, function: { arguments: json } }] }),
    ),
    delta({}, FINISH[spoken.stop]),
    ...(spoken.usage === null ? [] : [chunk({ choices: [], ...usageOf(spoken) })]),
    DONE,
  ],
  finishedBy: (events) => events.findIndex((event) => /"finish_reason":"/.test(event)),
  text: (text) => delta({ content: text }),
  whole: (spoken) =>
    JSON.stringify({
      object: "chat.completion",
      choices: [
        {
          index: 0,
          message: {
            role: "assistant",
            content: spoken.text,
            reasoning: spoken.reasoning,
            tool_calls: spoken.calls.map((call) => toolCall(call.ref, call.name, call.json)),
          },
          finish_reason: FINISH[spoken.stop],
        },
      ],
      ...usageOf(spoken),
    }),
  quiet: [
    chunk({ choices: [] }),
    chunk({ object: "chat.completion.later", news: [{ text: "?" }] }),
    delta({ content: "", reasoning_content: null, tool_calls: [] }),
    delta({ content: null, refusal: "", annotations: [{ title: "?" }] }),
    delta({ tool_calls: [null, { index: 0, function: { arguments: "" } }] }),
  ],
  // A chunk has no number: one that adds to a text or to arguments is added as often as it comes.
  knownAgain: (event) => !/"(reasoning_content|content|arguments)":"[^"]/.test(event),
  error: (code, message) => chunk(chatError(code, message)),
  refusal: (code, message) => JSON.stringify(chatError(code, message)),
  says: {
    rate_limited: {
      answers: [[429, writtenError("rate_limit_exceeded")]],
      events: [spokenError("rate_limit_exceeded"), chunk({ error: { code: 429 } })],
    },
    overloaded: {
      answers: [[503, writtenError("engine_overloaded")]],
      events: [spokenError("server_error"), chunk({ error: { code: 503, message: "busy" } })],
    },
    context_overflow: {
      answers: [
        [400, writtenError("context_length_exceeded")],
        [400, '{"error":{"code":400,"type":"exceed_context_size_error","message":"too long"}}'],
        [413, ""],
      ],
      events: [spokenError("context_length_exceeded")],
    },
  },
  carries: false,
};

wireConformance("openai-chat", NOTATION);

async function hear(...pieces: readonly string[]): Promise<Asked> {
  const answer: Answer = (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(pieces.join(""));
  };
  await using endpoint = await openEndpoint(answer);
  return await askOnce({ wire: "openai-chat", url: endpoint.url });
}

const piece = (fields: object) => delta({ tool_calls: [fields] });
const READ_A = '{"path":"a"}';
const reads = (...refs: readonly string[]) =>
  refs.map((ref) => ({ ref, op: { kind: "read", path: "a", from: 0, to: 0 } }));

test.each<[string, readonly string[], readonly string[]]>([
  [
    "without ids get one each",
    [
      piece({ index: 0, function: { name: "read", arguments: READ_A } }),
      piece({ index: 1, id: "", function: { name: "read", arguments: READ_A } }),
    ],
    ["call_0", "call_1"],
  ],
  [
    "that share an id are told apart by their index",
    [piece(toolCall("x", "read", READ_A, 0)), piece(toolCall("x", "read", READ_A, 1))],
    ["x", "call_1"],
  ],
  [
    "that share an index are told apart by their id",
    [piece(toolCall("x", "read", READ_A, 0)), piece(toolCall("y", "read", READ_A, 0))],
    ["x", "y"],
  ],
  [
    "without an index go on until the next name",
    [
      piece(toolCall("x", "read", '{"path"')),
      piece({ function: { arguments: ':"a"}' } }),
      piece(toolCall("y", "read", READ_A)),
    ],
    ["x", "y"],
  ],
  [
    "whose name comes with every piece have it once",
    [piece(toolCall("x", "read", '{"path":', 0)), piece(toolCall("x", "read", '"a"}', 0))],
    ["x"],
  ],
  [
    "whose arguments are an object are read",
    [piece({ index: 0, id: "x", function: { name: "read", arguments: { path: "a" } } })],
    ["x"],
  ],
  [
    "several in one piece are all heard",
    [delta({ tool_calls: [toolCall("x", "read", READ_A, 0), toolCall("y", "read", READ_A, 1)] })],
    ["x", "y"],
  ],
])("calls %s", async (_, pieces, refs) => {
  const { answer } = await hear(...pieces, delta({}, "tool_calls"), DONE);
  expect(answer).toMatchObject({ stop: "calls", calls: reads(...refs) });
});

test("a call never gets the ref of an older one", async () => {
  await using endpoint = await openEndpoint((response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(piece(toolCall("call_1", "read", READ_A, 0)));
    response.end(delta({}, "tool_calls") + DONE);
  });
  const op = { kind: "read", path: "a", from: 0, to: 0 } as const;
  const messages = [
    { kind: "user", text: "hi", images: [] },
    { kind: "assistant", text: "", reasoning: "", calls: [{ ref: "call_1", op }], opaque: "" },
    { kind: "tool", ref: "call_1", text: "", failed: false },
  ] as const;
  const asked = await askOnce({ wire: "openai-chat", url: endpoint.url, ask: { messages } });
  expect(asked.answer).toMatchObject({ calls: reads("call_2") });
});

test("a server that says stop although it calls is taken to call", async () => {
  const { answer } = await hear(piece(toolCall("x", "read", READ_A, 0)), delta({}, "stop"), DONE);
  expect(answer).toMatchObject({ stop: "calls", calls: reads("x") });
});

test("a stream that ends in [DONE] without a finish reason is an answer", async () => {
  const { answer } = await hear(delta({ content: "hi" }), DONE);
  expect(answer).toMatchObject({ kind: "reply", text: "hi", stop: "end" });
});

test("[DONE] alone is no answer", async () => {
  expect((await hear(DONE)).answer).toMatchObject({ fault: { code: "cut" } });
});

test("reasoning under both names is heard once, and empty deltas are nothing", async () => {
  const asked = await hear(
    delta({ reasoning: "why", reasoning_content: "why" }),
    delta({ reasoning: " not", content: null, tool_calls: null, more: {} }),
    delta({ content: "" }),
    delta({ content: [{ type: "text", text: "ok" }] }),
    chunk({ choices: [{ index: 1, delta: { content: "another choice" } }] }),
    delta({}, "stop"),
    DONE,
  );
  expect(asked.answer).toMatchObject({ reasoning: "why not", text: "ok" });
  expect(asked.deltas.every((each) => each.text !== "")).toBe(true);
});

test("a refusal's text is the text", async () => {
  const { answer } = await hear(delta({ refusal: "I will not" }), delta({}, "stop"), DONE);
  expect(answer).toMatchObject({ text: "I will not", stop: "refusal" });
});

test("of usage on every chunk the last counts, also when the stream is cut", async () => {
  const use = (prompt_tokens: number) =>
    chunk({
      choices: [{ delta: { content: "x" } }],
      usage: { prompt_tokens, completion_tokens: 2 },
    });
  const asked = await hear(use(5), use(6), chunk({ choices: [], usage: null }));
  expect(asked.answer.kind).toBe("failed");
  expect(asked.usage).toEqual({
    inputTokens: 6,
    cachedTokens: 0,
    outputTokens: 2,
    reasoningTokens: 0,
  });
});

test("no usage, or one that is no number, is 0", async () => {
  const usage = { prompt_tokens: -1, completion_tokens: "9", prompt_tokens_details: null };
  const asked = await hear(delta({ content: "x" }, "stop"), chunk({ choices: [], usage }), DONE);
  expect(asked.usage.inputTokens + asked.usage.outputTokens).toBe(0);
});

test("a finish reason that reports a failure is a fault", async () => {
  const { answer } = await hear(delta({ content: "x" }), delta({}, "error"));
  expect(answer).toMatchObject({ fault: { code: "overloaded" }, partial: "x" });
});

test("an error behind the finish takes nothing from the answer", async () => {
  const { answer } = await hear(delta({ content: "x" }, "stop"), NOTATION.error("x", "late"));
  expect(answer).toMatchObject({ kind: "reply", text: "x" });
});

test("a message of reasoning alone is not sent back, for providers refuse what is left of it", async () => {
  await using endpoint = await openEndpoint((response) => void response.writeHead(501).end());
  const messages = [
    { kind: "user", text: "hi", images: [] },
    { kind: "assistant", text: "", reasoning: "hm", calls: [], opaque: "" },
    { kind: "user", text: "", images: [{ mediaType: "image/png", data: "aGk=" }] },
  ] as const;
  await askOnce({ wire: "openai-chat", url: endpoint.url, ask: { messages, effort: "low" } });
  expect(JSON.parse(endpoint.bodies[0] ?? "")).toEqual({
    model: "some/model",
    stream: true,
    stream_options: { include_usage: true },
    reasoning_effort: "low",
    messages: [
      { role: "system", content: "You are Dev." },
      { role: "user", content: "hi" },
      {
        role: "user",
        content: [{ type: "image_url", image_url: { url: "data:image/png;base64,aGk=" } }],
      },
    ],
  });
});
