import type { IncomingMessage } from "node:http";
import { type Fields, fieldsOf, listOf, textOf } from "./json.ts";
import type {
  ScriptedCall,
  ScriptedMessage,
  ScriptedReply,
  ScriptedRequest,
  ScriptedUsage,
} from "./script.ts";

/** Of a text, what one piece of a stream carries. */
const PIECE_UNITS = 24;

/** A reply as the pieces of a stream of chat completion chunks, the last word included. */
export function replyPieces(
  reply: ScriptedReply,
  usage: ScriptedUsage,
  count: number,
): readonly string[] {
  const calls = reply.calls ?? [];
  const finish = reply.finish ?? (calls.length > 0 ? "tool_calls" : "stop");
  return [
    delta({ role: "assistant", content: "" }),
    ...cutUp(reply.reasoning ?? "").map((text) => delta({ reasoning_content: text })),
    ...cutUp(reply.text ?? "").map((text) => delta({ content: text })),
    ...calls.flatMap((call, index) => callPieces(call, index, count, 1)),
    finished(finish),
    used(usage),
    "data: [DONE]\n\n",
  ];
}

/** A stream in which a call's arguments stop half way. */
export function halfCallPieces(
  call: ScriptedCall,
  end: "cut" | "length",
  count: number,
): readonly string[] {
  const pieces = [delta({ role: "assistant", content: "" }), ...callPieces(call, 0, count, 0.5)];
  return end === "cut" ? pieces : [...pieces, finished("length"), "data: [DONE]\n\n"];
}

/** Reads what a scripted model shows of a request. */
export function readRequest(
  incoming: IncomingMessage,
  body: string,
  count: number,
): ScriptedRequest {
  const fields = parse(body);
  return {
    count,
    body,
    messages: listOf(fields.messages).map(messageOf),
    tools: listOf(fields.tools).map((tool) => textOf(fieldsOf(fieldsOf(tool)?.function)?.name)),
    hasKey: incoming.headers.authorization !== undefined,
  };
}

function messageOf(value: unknown): ScriptedMessage {
  const message = fieldsOf(value) ?? {};
  const { content } = message;
  return {
    role: textOf(message.role),
    content: typeof content === "string" ? content : JSON.stringify(content ?? ""),
    calls: listOf(message.tool_calls).map((each) => {
      const call = fieldsOf(each) ?? {};
      const fn = fieldsOf(call.function) ?? {};
      return { id: textOf(call.id), tool: textOf(fn.name), arguments: textOf(fn.arguments) };
    }),
  };
}

function parse(body: string): Fields {
  try {
    return fieldsOf(JSON.parse(body)) ?? {};
  } catch {
    // A request that is no JSON has no messages; the step's expectation says what was wanted.
    return {};
  }
}

/** The first piece has the id and the name, the others the arguments, up to a share of them. */
function callPieces(
  call: ScriptedCall,
  index: number,
  count: number,
  share: number,
): readonly string[] {
  const text =
    typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments ?? {});
  const id = call.id ?? `call_${count}_${index}`;
  const first = { index, id, type: "function", function: { name: call.tool, arguments: "" } };
  return [
    delta({ tool_calls: [first] }),
    ...cutUp(text.slice(0, Math.floor(text.length * share))).map((piece) =>
      delta({ tool_calls: [{ index, function: { arguments: piece } }] }),
    ),
  ];
}

function cutUp(text: string): readonly string[] {
  // By code points: half of a surrogate pair does not survive UTF-8.
  const points = Array.from(text);
  const pieces: string[] = [];
  for (let start = 0; start < points.length; start += PIECE_UNITS) {
    pieces.push(points.slice(start, start + PIECE_UNITS).join(""));
  }
  return pieces;
}

function delta(fields: object): string {
  return chunk({ choices: [{ index: 0, delta: fields, finish_reason: null }] });
}

function finished(reason: string): string {
  return chunk({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });
}

function used(usage: ScriptedUsage): string {
  return chunk({
    choices: [],
    usage: {
      prompt_tokens: usage.input,
      completion_tokens: usage.output,
      total_tokens: usage.input + usage.output,
      prompt_tokens_details: { cached_tokens: usage.cached ?? 0 },
      completion_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 },
    },
  });
}

function chunk(fields: object): string {
  const common = { id: "chatcmpl-scripted", object: "chat.completion.chunk", model: "scripted" };
  return `data: ${JSON.stringify({ ...common, ...fields })}\n\n`;
}
