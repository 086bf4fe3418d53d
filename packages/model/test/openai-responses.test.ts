import { expect, test } from "vitest";
import { modelOf } from "../src/catalog.ts";
import { OPENAI_RESPONSES } from "../src/wires/openai-responses.ts";
import { PLAIN, wireConformance } from "./conformance.ts";
import { type Asked, askOf, askOnce, openEndpoint } from "./endpoint.ts";
import {
  begun,
  ended,
  eventsOf,
  failure,
  NOTATION,
  numbered,
  sent,
  written,
} from "./openai-responses-notation.ts";

wireConformance("openai-responses", NOTATION);

async function hear(...pieces: readonly string[]): Promise<Asked> {
  await using endpoint = await openEndpoint((response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(pieces.join(""));
  });
  return await askOnce({ wire: "openai-responses", url: endpoint.url });
}

/** What a delta's listener heard of a kind. */
const heard = (asked: Asked, kind: "text" | "reasoning"): string =>
  asked.deltas.flatMap((delta) => (delta.kind === kind ? [delta.text] : [])).join("");

const delta = (fields: object): string => sent({ type: "response.output_text.delta", ...fields });
const reasoned = (fields: object): string =>
  sent({ type: "response.reasoning_summary_text.delta", ...fields });
const argued = (fields: object): string =>
  sent({ type: "response.function_call_arguments.delta", ...fields });
const completed = (fields: object = {}): string =>
  sent({ type: "response.completed", response: { status: "completed", output: [], ...fields } });
const incomplete = (reason: string): string =>
  sent({
    type: "response.incomplete",
    response: { status: "incomplete", incomplete_details: { reason } },
  });

const READ_A = '{"path":"a"}';
const call = (call_id: string, id = `fc_${call_id}`) => ({
  id,
  type: "function_call",
  call_id,
  name: "read",
  arguments: READ_A,
});
const message = (text: string, id: string, fields: object = {}) => ({
  id,
  type: "message",
  role: "assistant",
  content: [{ type: "output_text", text }],
  ...fields,
});
const reasoning = (id: string, encrypted_content: string) => ({
  id,
  type: "reasoning",
  summary: [],
  encrypted_content,
});
const reads = (...refs: readonly string[]) =>
  refs.map((ref) => ({ ref, op: { kind: "read", path: "a", from: 0, to: 0 } }));

test("parts of reasoning and several messages stand apart, as heard and as answered", async () => {
  const asked = await hear(
    reasoned({ output_index: 0, summary_index: 0, delta: "one" }),
    reasoned({ output_index: 0, summary_index: 1, delta: "two" }),
    delta({ output_index: 1, item_id: "a", delta: "First" }),
    reasoned({ output_index: 2, summary_index: 0, delta: "three" }),
    delta({ output_index: 3, item_id: "b", delta: "Last" }),
    delta({ output_index: 3, item_id: "b", delta: "." }),
    completed(),
  );
  const text = "First\n\nLast.";
  const thought = "one\n\ntwo\n\nthree";
  expect(asked.answer).toMatchObject({ text, reasoning: thought, stop: "end" });
  expect([heard(asked, "text"), heard(asked, "reasoning")]).toEqual([text, thought]);
});

test("messages that share an index are told apart by their ids", async () => {
  const asked = await hear(
    sent(begun(0, message("", "a"))),
    delta({ output_index: 0, item_id: "a", delta: "First" }),
    sent(begun(0, message("", "b"))),
    delta({ output_index: 0, item_id: "b", delta: "Last." }),
    completed(),
  );
  expect(asked.answer).toMatchObject({ text: "First\n\nLast." });
});

test("what an item is said to have become counts, and what was missing of it is heard", async () => {
  const asked = await hear(
    delta({ output_index: 0, delta: "Hel" }),
    sent(ended(0, message("Hello", "msg"))),
    delta({ output_index: 1, delta: "doubled doubled" }),
    sent(ended(1, message("single", "msg2"))),
    sent(ended(2, { ...message("", "msg3"), content: [] })),
    completed({ output: [message("Another", "x")] }),
  );
  expect(asked.answer).toMatchObject({ text: "Hello\n\nsingle" });
  expect(heard(asked, "text")).toBe("Hello\n\ndoubled doubled");
});

test("a response whose items did not come one by one is read from its end", async () => {
  const end = completed({ output: [message("Hi", "m"), call("x")] });
  for (const events of [[end], [delta({ output_index: 0, delta: "Hi" }), end]]) {
    const asked = await hear(...events);
    expect(asked.answer).toMatchObject({ text: "Hi", calls: reads("x"), stop: "calls" });
    expect(heard(asked, "text")).toBe("Hi");
  }
});

test("a server that numbers all events alike, or numbers none, is heard whole", async () => {
  const zero = { output_index: 0, sequence_number: 0 };
  for (const fields of [{}, zero, { item_id: "m" }]) {
    const twice = [delta({ ...fields, delta: "ha" }), delta({ ...fields, delta: "ha" })];
    expect((await hear(...twice, completed())).answer).toMatchObject({ text: "haha" });
  }
});

test.each<[string, readonly string[]]>([
  [
    "by their ids, at a server without indexes",
    [
      sent({ type: "response.output_item.added", item: { ...call("x"), arguments: "" } }),
      argued({ item_id: "fc_x", delta: '{"path"' }),
      sent({ type: "response.output_item.added", item: { ...call("y"), arguments: "" } }),
      argued({ item_id: "fc_y", delta: READ_A }),
      argued({ item_id: "fc_x", delta: ':"a"}' }),
    ],
  ],
  [
    "by their indexes, at a server that gives an item a new id with every event",
    [
      sent(begun(0, { ...call("x", "1"), arguments: "" })),
      sent(begun(1, { ...call("y", "2"), arguments: "" })),
      argued({ item_id: "3", output_index: 0, delta: READ_A }),
      argued({ item_id: "4", output_index: 1, delta: '{"path":' }),
      sent(ended(1, call("y", "5"))),
      sent(ended(0, call("x", "6"))),
    ],
  ],
  [
    "by their refs, at a server that gives every item the same index",
    [
      sent(begun(0, { ...call("x"), arguments: "" })),
      argued({ item_id: "fc_x", output_index: 0, delta: READ_A }),
      sent(begun(0, { ...call("y"), arguments: "" })),
      argued({ item_id: "fc_y", output_index: 0, delta: READ_A }),
      sent(ended(0, call("x"))),
      sent(ended(0, call("y"))),
    ],
  ],
  [
    "by their refs, where only their ends are told",
    [sent(ended(0, call("x", ""))), sent(ended(0, call("y", "")))],
  ],
])("calls are told apart %s", async (_, events) => {
  const { answer } = await hear(...events, completed());
  expect(answer).toMatchObject({ stop: "calls", calls: reads("x", "y") });
});

test("calls stand in the order of their indexes, however they come", async () => {
  const { answer } = await hear(sent(ended(3, call("y"))), sent(ended(1, call("x"))), completed());
  expect(answer).toMatchObject({ calls: reads("x", "y") });
});

test.each([
  ["content_filter", "refusal"],
  ["max_output_tokens", "length"],
  ["never_heard_of_it", "length"],
])("a response that is incomplete for %s is a %s", async (reason, stop) => {
  const asked = await hear(delta({ output_index: 0, delta: "Well" }), incomplete(reason));
  expect(asked.answer).toMatchObject({ kind: "reply", text: "Well", stop });
});

test.each([
  ["a stream that ends in [DONE] alone", "data: [DONE]\n\n", "cut"],
  ["a stream without its last event", delta({ delta: "x" }), "cut"],
  ["a stream of another API", 'data: {"choices":[{"delta":{"content":"x"}}]}\n\n', "garbled"],
])("%s is no answer", async (_, events, code) => {
  expect((await hear(events)).answer).toMatchObject({ kind: "failed", fault: { code } });
});

test("what can never work is not called overloaded", async () => {
  for (const [code, named] of [
    ["invalid_prompt", "model_refused"],
    ["invalid_image", "bad_request"],
  ] as const) {
    expect((await hear(sent(failure(code, "no")))).answer).toMatchObject({
      fault: { code: named },
    });
  }
});

test("a whole answer that failed, or is still in progress, is none", async () => {
  for (const [fields, code] of [
    [{ status: "failed", error: { code: "rate_limit_exceeded" }, output: [] }, "rate_limited"],
    [{ status: "queued", output: [] }, "overloaded"],
    [{ status: "completed" }, "garbled"],
  ] as const) {
    await using endpoint = await openEndpoint((response) => {
      response.end(JSON.stringify(fields));
    });
    const limits = { attemptCount: 1 };
    const asked = await askOnce({ wire: "openai-responses", url: endpoint.url, limits });
    expect(asked.answer).toMatchObject({ fault: { code } });
  }
});

/** The input that carries a reply back to the model that gave it. */
async function returned(...items: readonly object[]): Promise<readonly object[]> {
  const { answer } = await hear(...items.map((item, at) => sent(ended(at, item))), completed());
  if (answer.kind !== "reply") throw new Error(JSON.stringify(answer));
  const { text, reasoning: thought, calls, opaque } = answer;
  const back = { kind: "assistant", text, reasoning: thought, calls, opaque } as const;
  await using endpoint = await openEndpoint((response) => void response.writeHead(501).end());
  await askOnce({ wire: "openai-responses", url: endpoint.url, ask: { messages: [back] } });
  return JSON.parse(endpoint.bodies[0] ?? "").input;
}

const said = (content: string, fields: object = {}) => ({ role: "assistant", content, ...fields });
const called = (call_id: string) => ({
  type: "function_call",
  call_id,
  name: "read",
  arguments: READ_A,
});

test("reasoning, messages and calls go back in the order in which they came", async () => {
  const input = await returned(
    reasoning("rs_1", "one"),
    message("Let me see", "m1", { phase: "commentary" }),
    call("x"),
    { ...reasoning("rs_2", "two"), summary: [{ type: "summary_text", text: "hm" }] },
    call("y"),
    reasoning("rs_3", "three"),
    message("There.", "m2"),
  );
  expect(input).toEqual([
    reasoning("rs_1", "one"),
    said("Let me see", { phase: "commentary" }),
    called("x"),
    { ...reasoning("rs_2", "two"), summary: [{ type: "summary_text", text: "hm" }] },
    called("y"),
    reasoning("rs_3", "three"),
    said("There."),
  ]);
});

test("reasoning with nothing behind it, or that is not encrypted, does not go back", async () => {
  expect(await returned(message("Hi", "m"), reasoning("rs_1", "one"))).toEqual([said("Hi")]);
  expect(await returned(reasoning("rs_1", ""), message("Hi", "m"))).toEqual([said("Hi")]);
  expect(await returned(reasoning("rs_1", "one"))).toEqual([]);
});

test("a message that was changed on its way goes back without its reasoning", async () => {
  const { answer } = await hear(
    sent(ended(0, reasoning("rs_1", "one"))),
    sent(ended(1, message("Hello", "m"))),
    completed(),
  );
  const opaque = answer.kind === "reply" ? answer.opaque : "";
  expect(opaque).toContain("one");
  const changed = { kind: "assistant", text: "Hell", reasoning: "", calls: [], opaque } as const;
  await using endpoint = await openEndpoint((response) => void response.writeHead(501).end());
  await askOnce({ wire: "openai-responses", url: endpoint.url, ask: { messages: [changed] } });
  expect(JSON.parse(endpoint.bodies[0] ?? "").input).toEqual([said("Hell")]);
});

test("reasoning that its provider can no longer read is left out, and the ask goes on", async () => {
  const { answer: first } = await hear(
    sent(ended(0, reasoning("rs_1", "one"))),
    sent(ended(1, message("Hello", "m"))),
    completed(),
  );
  const opaque = first.kind === "reply" ? first.opaque : "";
  const back = { kind: "assistant", text: "Hello", reasoning: "", calls: [], opaque } as const;
  await using endpoint = await openEndpoint((response, _, count) => {
    if (count === 1) {
      response.writeHead(400);
      response.end(written("invalid_encrypted_content", "could not be verified"));
    } else {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(numbered(eventsOf(PLAIN)).join(""));
    }
  });
  const asked = await askOnce({
    wire: "openai-responses",
    url: endpoint.url,
    ask: { messages: [back] },
  });
  expect(asked.answer.kind).toBe("reply");
  expect(asked.attempts.map((after) => after?.code)).toEqual([undefined, "bad_request"]);
  expect(endpoint.bodies.map((body) => body.includes('encrypted_content":"one'))).toEqual([
    true,
    false,
  ]);
});

test("a request says what it wants, stores nothing, and has its images in it", async () => {
  await using endpoint = await openEndpoint((response) => void response.writeHead(501).end());
  const messages = [
    { kind: "user", text: "hi", images: [] },
    { kind: "assistant", text: "", reasoning: "hm", calls: [], opaque: "" },
    { kind: "user", text: "see", images: [{ mediaType: "image/png", data: "aGk=" }] },
    { kind: "user", text: "", images: [{ mediaType: "image/png", data: "aGk=" }] },
  ] as const;
  const tools = [{ name: "t", description: "d", parameters: '{"type":"object"}' }];
  const ask = { messages, tools, effort: "high" } as const;
  await askOnce({ wire: "openai-responses", url: endpoint.url, ask });
  const image = { type: "input_image", detail: "auto", image_url: "data:image/png;base64,aGk=" };
  expect(JSON.parse(endpoint.bodies[0] ?? "")).toEqual({
    model: "some/model",
    stream: true,
    store: false,
    include: ["reasoning.encrypted_content"],
    reasoning: { effort: "high" },
    instructions: "You are Dev.",
    tools: [
      {
        type: "function",
        name: "t",
        description: "d",
        parameters: { type: "object" },
        strict: false,
      },
    ],
    input: [
      { role: "user", content: "hi" },
      { role: "user", content: [{ type: "input_text", text: "see" }, image] },
      { role: "user", content: [image] },
    ],
  });
});

test("a model that does not reason is not asked for its reasoning", () => {
  const known = modelOf("openai/gpt-4.1");
  expect(known.reasoning).toBe("none");
  const body = OPENAI_RESPONSES.body(askOf({ effort: "high" }), "gpt-4.1", known);
  expect(JSON.parse(body)).not.toHaveProperty("include");
  expect(JSON.parse(body)).not.toHaveProperty("reasoning");
});
