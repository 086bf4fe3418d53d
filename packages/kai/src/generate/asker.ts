import type { Message, ModelAnswer, Usage } from "@dev/protocol";

/** What a model is asked: all of it, and the shape that its answer must have. */
export type Prompt = {
  readonly prelude: string;
  readonly messages: readonly Message[];
  /** A JSON schema, strict as providers mean it: all fields required, and no others. */
  readonly schema: Schema;
};

export type Schema = { readonly name: string; readonly schema: object };

export type Effort = "low" | "full";

export type Asked = {
  readonly answer: ModelAnswer;
  readonly usage: Usage;
  /** 0 where the price, or what was used, is not known. */
  readonly costMicroUsd: number;
};

/** Puts a prompt to one model. Never rejects, but for a callback that does. */
export interface Asker {
  /** `provider/model`. */
  readonly model: string;
  readonly ceiling: Rate;
  /** `onHeard` gets each piece of text or reasoning as it comes. An abort closes the stream. */
  ask(
    prompt: Prompt,
    effort: Effort,
    onHeard: (text: string) => void,
    signal: AbortSignal,
  ): Promise<Asked>;
}

/** The most that a token costs, in millionths of a US dollar; 0 where no price is known. */
export type Rate = { readonly input: number; readonly output: number };

/** Code and prose have more characters a token than this nearly everywhere. */
const TOKEN_CHARS = 3;

/** What a wire says besides: its own words around the messages and the schema. */
const FRAME_CHARS = 200;

export function promptChars({ prelude, messages, schema }: Prompt): number {
  const said = messages.reduce((sum, message) => sum + message.text.length, 0);
  return FRAME_CHARS + prelude.length + JSON.stringify(schema).length + said;
}

/**
 * What a call costs by what was sent and heard, where nobody says: in millionths of a US dollar, at
 * the highest rate.
 */
export function ceilingMicroUsd(rate: Rate, sentChars: number, heardChars: number): number {
  const input = Math.ceil(sentChars / TOKEN_CHARS) * rate.input;
  const output = Math.ceil(heardChars / TOKEN_CHARS) * rate.output;
  return Math.ceil(input + output);
}
