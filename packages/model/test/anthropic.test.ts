import { expect, test } from "vitest";
import {
  begun,
  called,
  ended,
  event,
  hear,
  piece,
  problem,
  STOP,
  said,
  started,
  stopped,
} from "./anthropic-notation.ts";
import {
  mixedPieces,
  piecesOf,
  type Spoken,
  type WireNotation,
  wireConformance,
} from "./conformance.ts";
import { askOnce, openEndpoint } from "./endpoint.ts";

const STOPS = { end: "end_turn", calls: "tool_use", length: "max_tokens", refusal: "refusal" };

function usageOf({ usage }: Spoken): object | undefined {
  if (usage === null) return undefined;
  return {
    // This API counts apart what comes from the cache and what goes there.
    input_tokens: usage.inputTokens - usage.cachedTokens - 5,
    cache_creation_input_tokens: 5,
    cache_read_input_tokens: usage.cachedTokens,
    output_tokens: usage.outputTokens,
    output_tokens_details: { thinking_tokens: usage.reasoningTokens },
  };
}

const TOO_LONG = "prompt is too long: 208310 tokens > 200000 maximum";
const NO_ROOM = "input length and `max_tokens` exceed context limit: 182831 + 64000 > 200000";

function stream(spoken: Spoken): readonly string[] {
  const { reasoning, secret, text, calls, pieceUnits } = spoken;
  const thinks = reasoning !== "" || secret !== "";
  const usage = usageOf(spoken);
  return [
    started(usage && { ...usage, output_tokens: 1, output_tokens_details: null }),
    event({ type: "ping" }),
    ...(thinks
      ? [
          begun(0, { type: "thinking", thinking: "", signature: "" }),
          ...piecesOf(reasoning, pieceUnits).map((thinking) =>
            piece(0, { type: "thinking_delta", thinking }),
          ),
          piece(0, { type: "signature_delta", signature: secret }),
          ended(0),
        ]
      : []),
    begun(1, { type: "text", text: "" }),
    ...piecesOf(text, pieceUnits).map((part) => piece(1, { type: "text_delta", text: part })),
    ended(1),
    ...calls.map(({ ref, name }, index) =>
      begun(index + 2, { type: "tool_use", id: ref, name, input: {} }),
    ),
    ...mixedPieces(spoken).map(([index, partial_json]) =>
      piece(index + 2, { type: "input_json_delta", partial_json }),
    ),
    ...calls.map((_, index) => ended(index + 2)),
    stopped(STOPS[spoken.stop], usage),
    STOP,
  ];
}

const NOTATION: WireNotation = {
  wire: "anthropic",
  stream,
  finishedBy: (events) => events.findIndex((each) => /"stop_reason":"/.test(each)),
  text: (text) => begun(0, { type: "text", text: "" }) + piece(0, { type: "text_delta", text }),
  whole: (spoken) => {
    const { reasoning, secret, text, calls } = spoken;
    const thinking = { type: "thinking", thinking: reasoning, signature: secret };
    return JSON.stringify({
      type: "message",
      role: "assistant",
      content: [
        ...(reasoning === "" && secret === "" ? [] : [thinking]),
        ...(text === "" ? [] : [{ type: "text", text, citations: null }]),
        ...calls.map(({ ref, name, json }) => ({
          type: "tool_use",
          id: ref,
          name,
          input: JSON.parse(json),
        })),
      ],
      stop_reason: STOPS[spoken.stop],
      stop_sequence: null,
      usage: usageOf(spoken),
    });
  },
  quiet: [
    event({ type: "ping" }),
    event({ type: "content_block_later", index: 0, news: "?" }),
    stopped(null),
    begun(90, { type: "later_block", text: "?" }) + piece(90, { type: "text_delta", text: "?" }),
    ended(91),
  ],
  // A piece has no number: one that adds to what came is added as often as it comes.
  knownAgain: (each) => !/"(text|thinking|partial_json)":"[^"]/.test(each),
  error: (code, message) => event(problem(code, message)),
  refusal: (code, message) => JSON.stringify(problem(code, message)),
  says: {
    rate_limited: {
      answers: [[429, JSON.stringify(problem("rate_limit_error", "slow down"))]],
      events: [event(problem("rate_limit_error", "slow down"))],
    },
    overloaded: {
      answers: [
        [529, JSON.stringify(problem("overloaded_error", "Overloaded"))],
        [500, JSON.stringify(problem("api_error", "Internal server error"))],
        [504, JSON.stringify(problem("timeout_error", "timed out"))],
      ],
      events: [
        event(problem("overloaded_error", "Overloaded")),
        event(problem("api_error", "Internal server error")),
      ],
    },
    context_overflow: {
      answers: [
        [400, JSON.stringify(problem("invalid_request_error", TOO_LONG))],
        [400, JSON.stringify(problem("invalid_request_error", NO_ROOM))],
        [413, JSON.stringify(problem("request_too_large", "Request exceeds the maximum size"))],
      ],
      events: [
        event(problem("invalid_request_error", TOO_LONG)),
        stopped("model_context_window_exceeded"),
      ],
    },
  },
  carries: true,
};

wireConformance("anthropic", NOTATION);

test.each<[string, readonly string[]]>([
  ["a piece of a block that never began", [piece(7, { type: "text_delta", text: "x" })]],
  [
    "a piece without a block",
    [event({ type: "content_block_delta", delta: { type: "text_delta" } })],
  ],
  [
    "text for a call",
    [
      begun(0, { type: "tool_use", id: "x", name: "read", input: {} }),
      piece(0, { type: "text_delta", text: "x" }),
    ],
  ],
  [
    "arguments for a text",
    [said(0, "A"), piece(0, { type: "input_json_delta", partial_json: "{" })],
  ],
  ["a block that begins again as another", [said(0, "A"), begun(0, { type: "thinking" })]],
  [
    "a call that begins again as another",
    [called(0, "x", "{}"), begun(0, { type: "tool_use", id: "y" })],
  ],
  [
    "a block without a number",
    [event({ type: "content_block_start", content_block: { type: "text" } })],
  ],
  ["a thing without a type", [event({ choices: [] })]],
])("%s is garbled", async (_, pieces) => {
  const { answer } = await hear([...pieces, stopped("end_turn"), STOP]);
  expect(answer).toMatchObject({ fault: { code: "garbled" } });
});

test.each<[string, readonly string[], object]>([
  [
    "in its beginning alone",
    [begun(0, { type: "tool_use", id: "x", name: "read", input: { path: "a" } })],
    { kind: "read", path: "a" },
  ],
  [
    "in pieces, whatever its beginning had",
    [
      begun(0, { type: "tool_use", id: "x", name: "read", input: { path: "b" } }),
      piece(0, { type: "input_json_delta", partial_json: '{"path":"a"}' }),
    ],
    { kind: "read", path: "a" },
  ],
  [
    "of no fields",
    [
      begun(0, { type: "tool_use", id: "x", name: "read", input: {} }),
      piece(0, { type: "input_json_delta", partial_json: "" }),
    ],
    { kind: "invalid", reason: expect.stringContaining("path: missing") },
  ],
])("a call's input is taken %s", async (_, pieces, op) => {
  const { answer } = await hear([...pieces, ended(0), stopped("tool_use"), STOP]);
  expect(answer).toMatchObject({ stop: "calls", calls: [{ ref: "x", op }] });
});

test.each([
  ["end_turn", "end"],
  ["stop_sequence", "end"],
  ["a_later_word", "end"],
  ["max_tokens", "length"],
  ["pause_turn", "length"],
  ["refusal", "refusal"],
])("the stop reason %s is %s", async (reason, stop) => {
  const { answer } = await hear([said(0, "A"), stopped(reason), STOP]);
  expect(answer).toMatchObject({ kind: "reply", text: "A", stop });
});

test("a stream's last word ends an answer without a stop reason, and nothing is no answer", async () => {
  expect((await hear([said(0, "A"), STOP])).answer).toMatchObject({ text: "A", stop: "end" });
  expect((await hear([started(), STOP])).answer).toMatchObject({ fault: { code: "cut" } });
});

test("an overload after the beginning of a message is tried again, for nothing had come", async () => {
  await using endpoint = await openEndpoint((response, _, count) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const overload = [started(), event(problem("overloaded_error", "Overloaded"))];
    response.end((count === 1 ? overload : [said(0, "A"), stopped("end_turn")]).join(""));
  });
  const asked = await askOnce({ wire: "anthropic", url: endpoint.url });
  expect(asked.answer).toMatchObject({ text: "A" });
  expect(asked.attempts).toHaveLength(2);
});

test("usage counts cache reads and writes as input, and is kept of a stream that is cut", async () => {
  const usage = { input_tokens: 5, cache_creation_input_tokens: 20, cache_read_input_tokens: 100 };
  const counts = { inputTokens: 125, cachedTokens: 100, reasoningTokens: 0 };
  const cut = await hear([started({ ...usage, output_tokens: 1 }), said(0, "A")]);
  expect([cut.answer.kind, cut.usage]).toEqual(["failed", { ...counts, outputTokens: 1 }]);
  const whole = await hear([
    started({ ...usage, output_tokens: 1 }),
    said(0, "A"),
    stopped("end_turn", { output_tokens: 9, input_tokens: null }),
    STOP,
  ]);
  expect(whole.usage).toEqual({ ...counts, outputTokens: 9 });
});

test("blocks have an end", async () => {
  const many = Array.from({ length: 4_097 }, (_, index) => begun(index, { type: "text" }));
  expect((await hear(many)).answer).toMatchObject({ fault: { code: "too_large" } });
});
