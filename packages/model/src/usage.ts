import type { ModelAnswer, Usage } from "@dev/protocol";
import type { Ask } from "./router.ts";

/** Counts as a provider writes them, whatever they are. */
export type Said = { readonly [K in "input" | "cached" | "output" | "reasoning"]: unknown };

/**
 * The usage that a provider says, over what it said before. What is no count of tokens is as good as not
 * said, and a part is never more than its whole.
 */
export function usageOf(said: Said, before: Usage): Usage {
  const inputTokens = countOf(said.input) || before.inputTokens;
  const outputTokens = countOf(said.output) || before.outputTokens;
  return {
    inputTokens,
    cachedTokens: Math.min(countOf(said.cached) || before.cachedTokens, inputTokens),
    outputTokens,
    reasoningTokens: Math.min(countOf(said.reasoning) || before.reasoningTokens, outputTokens),
  };
}

/** Far past what any model takes in or answers: more is a slip, and would spoil every sum. */
const TOKENS_LIMIT = 100_000_000;

/** A whole number above 0 and within the limit; 0, which is not said, for anything else. */
export function countOf(value: unknown): number {
  const isCount = typeof value === "number" && Number.isSafeInteger(value);
  return isCount && value > 0 && value <= TOKENS_LIMIT ? value : 0;
}

/** Of JSON and of text, how much is at least a token; for most it is more. */
const BYTES_PER_TOKEN = 3;
/** An image is not read as the text that it is sent as. */
const TOKENS_PER_IMAGE = 2_000;

/** What is known of an exchange whose provider did not count. */
export type Exchanged = {
  readonly ask: Ask;
  readonly requestBytes: number;
  /** Of the text and the reasoning that came. */
  readonly heardBytes: number;
  readonly answer: ModelAnswer;
};

/** The tokens to price where they were not said: by size, and rather too many than too few. */
export function estimated({
  ask,
  requestBytes,
  heardBytes,
  answer,
}: Exchanged): Pick<Usage, "inputTokens" | "outputTokens"> {
  let imageCount = 0;
  let imageBytes = 0;
  for (const message of ask.messages) {
    if (message.kind !== "user") continue;
    imageCount += message.images.length;
    for (const image of message.images) imageBytes += image.data.length;
  }
  const { calls, opaque } = answer.kind === "reply" ? answer : { calls: [], opaque: "" };
  const calledBytes = calls.length === 0 ? 0 : Buffer.byteLength(JSON.stringify(calls));
  const answerBytes = heardBytes + calledBytes + Buffer.byteLength(opaque);
  return {
    inputTokens: tokensOf(requestBytes - imageBytes) + imageCount * TOKENS_PER_IMAGE,
    outputTokens: tokensOf(answerBytes),
  };
}

function tokensOf(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}
