import { mixedPieces, piecesOf, type Spoken, type WireNotation } from "./conformance.ts";

export type Event = { readonly type: string; readonly [name: string]: unknown };

/** The events as they are sent, numbered from 0. */
export const numbered = (events: readonly Event[]): readonly string[] =>
  events.map((event, sequence_number) => sent({ ...event, sequence_number }));

export const sent = (event: Event): string =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

export const begun = (output_index: number, item: object): Event => ({
  type: "response.output_item.added",
  output_index,
  item,
});
export const ended = (output_index: number, item: object): Event => ({
  type: "response.output_item.done",
  output_index,
  item,
});

/** All pieces of a text as events of a kind. */
const told = (type: string, spoken: Spoken, text: string, where: object): readonly Event[] =>
  piecesOf(text, spoken.pieceUnits).map((delta) => ({ type, ...where, delta }));

/** Where the calls of a reply begin: behind its reasoning and its text. */
const FIRST_CALL = 2;

function itemsOf(spoken: Spoken): readonly object[] {
  const { text, reasoning, secret } = spoken;
  const summary = reasoning === "" ? [] : [{ type: "summary_text", text: reasoning }];
  const part =
    spoken.stop === "refusal"
      ? { type: "refusal", refusal: text }
      : { type: "output_text", text, annotations: [], logprobs: [] };
  return [
    {
      id: "rs_1",
      type: "reasoning",
      summary,
      encrypted_content: secret === "" ? null : secret,
    },
    { id: "msg_1", type: "message", role: "assistant", status: "completed", content: [part] },
    ...spoken.calls.map((call, at) => ({
      id: `fc_${at}`,
      type: "function_call",
      status: spoken.stop === "length" ? "incomplete" : "completed",
      call_id: call.ref,
      name: call.name,
      arguments: call.json,
    })),
  ];
}

function responseOf(spoken: Spoken, output: readonly object[]): object {
  const { usage } = spoken;
  return {
    id: "resp_1",
    object: "response",
    status: spoken.stop === "length" ? "incomplete" : "completed",
    error: null,
    incomplete_details: spoken.stop === "length" ? { reason: "max_output_tokens" } : null,
    output,
    usage: usage && {
      input_tokens: usage.inputTokens,
      input_tokens_details: { cached_tokens: usage.cachedTokens },
      output_tokens: usage.outputTokens,
      output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
      total_tokens: usage.inputTokens + usage.outputTokens,
    },
  };
}

export function eventsOf(spoken: Spoken): readonly Event[] {
  const [reasoning = {}, message = {}, ...calls] = itemsOf(spoken);
  const isRefusal = spoken.stop === "refusal";
  const textDelta = isRefusal ? "response.refusal.delta" : "response.output_text.delta";
  const inReasoning = { item_id: "rs_1", output_index: 0, summary_index: 0 };
  const inMessage = { item_id: "msg_1", output_index: 1, content_index: 0 };
  const inCall = (at: number) => ({ item_id: `fc_${at}`, output_index: FIRST_CALL + at });
  const inProgress = { id: "resp_1", object: "response", status: "in_progress", output: [] };
  return [
    { type: "response.created", response: inProgress },
    { type: "response.in_progress", response: inProgress },
    begun(0, { ...reasoning, summary: [], encrypted_content: "" }),
    { type: "response.reasoning_summary_part.added", ...inReasoning, part: { text: "" } },
    ...told("response.reasoning_summary_text.delta", spoken, spoken.reasoning, inReasoning),
    { type: "response.reasoning_summary_text.done", ...inReasoning, text: spoken.reasoning },
    ended(0, reasoning),
    begun(1, { ...message, status: "in_progress", content: [] }),
    { type: "response.content_part.added", ...inMessage, part: { type: "output_text", text: "" } },
    ...told(textDelta, spoken, spoken.text, inMessage),
    { type: "response.output_text.done", ...inMessage, text: spoken.text },
    ended(1, message),
    ...calls.map((call, at) =>
      begun(FIRST_CALL + at, { ...call, status: "in_progress", arguments: "" }),
    ),
    ...mixedPieces(spoken).map(([at, delta]) => ({
      type: "response.function_call_arguments.delta",
      ...inCall(at),
      delta,
    })),
    ...calls.flatMap((call, at) => {
      const { json } = spoken.calls[at] ?? { json: "" };
      const done = "response.function_call_arguments.done";
      return [{ type: done, ...inCall(at), arguments: json }, ended(FIRST_CALL + at, call)];
    }),
    {
      type: spoken.stop === "length" ? "response.incomplete" : "response.completed",
      response: responseOf(spoken, itemsOf(spoken)),
    },
  ];
}

export const failure = (code: string, message: string): Event => ({
  type: "response.failed",
  response: { id: "resp_1", status: "failed", error: { code, message }, output: [], usage: null },
});
const problem = (code: string, message: string): Event => ({
  type: "error",
  code,
  message,
  param: null,
});
export const written = (code: string, message: string, type = "invalid_request_error"): string =>
  JSON.stringify({ error: { message, type, param: "input", code } });

/** An error in each of the forms in which it comes. */
const spokenErrors = (code: string): readonly string[] => [
  sent(problem(code, "sorry")),
  sent({ type: "error", error: { type: "some_error", code, message: "sorry" } }),
  sent(failure(code, "sorry")),
  `data: ${JSON.stringify({ error: { code, message: "sorry" } })}\n\n`,
];

export const NOTATION: WireNotation = {
  wire: "openai-responses",
  stream: (spoken) => numbered(eventsOf(spoken)),
  finishedBy: (events) => events.length - 1,
  text: (delta) =>
    sent({ type: "response.output_text.delta", item_id: "msg_1", output_index: 0, delta }),
  whole: (spoken) => JSON.stringify(responseOf(spoken, itemsOf(spoken))),
  quiet: [
    sent({ type: "keepalive", sequence_number: 3 }),
    sent({ type: "response.later.news", output_index: 0, delta: "news" }),
    sent({ type: "response.queued", response: {} }),
    sent(begun(9, { id: "ws_1", type: "web_search_call", status: "in_progress" })),
    sent(ended(9, { id: "cmp_1", type: "compaction", encrypted_content: "?" })),
    sent({ type: "response.output_item.added", output_index: 9 }),
    sent({ type: "response.output_text.delta", item_id: "msg_1", output_index: 1, delta: "" }),
    sent({ type: "response.function_call_arguments.delta", item_id: "fc_0", delta: null }),
    sent({ type: "response.reasoning_summary_text.delta", output_index: 0, delta: "" }),
  ],
  // Every event has a number, and what an item has become is told whole at its end.
  knownAgain: () => true,
  error: (code, message) => sent(problem(code, message)),
  refusal: written,
  says: {
    rate_limited: {
      answers: [
        [429, written("rate_limit_exceeded", "slow down", "tokens")],
        [429, written("credit_balance_exhausted", "pay", "insufficient_quota")],
      ],
      events: spokenErrors("rate_limit_exceeded"),
    },
    overloaded: {
      answers: [[503, written("server_is_overloaded", "busy", "service_unavailable_error")]],
      events: [
        ...spokenErrors("server_is_overloaded"),
        ...spokenErrors("slow_down"),
        sent(failure("server_error", "oh")),
        sent({ type: "response.failed", response: { status: "failed" } }),
        sent({ type: "response.cancelled", response: { status: "cancelled" } }),
      ],
    },
    context_overflow: {
      answers: [[400, written("context_length_exceeded", "too long")]],
      events: spokenErrors("context_length_exceeded"),
    },
  },
  carries: true,
};
