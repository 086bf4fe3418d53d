import { createHash } from "node:crypto";
import {
  type AssistantMessage,
  type Call,
  never,
  type ToolMessage,
  type UserMessage,
} from "@dev/protocol";
import type { Ask } from "../router.ts";
import { renderCall } from "../tools.ts";
import { readThinking, type Thinking } from "./anthropic-thinking.ts";
import { wellFormed } from "./text.ts";

/** One entry of the API's `messages`; each block is JSON. */
export type Turn = UserTurn | AssistantTurn;

export type UserTurn = {
  readonly role: "user";
  readonly blocks: readonly string[];
  /** How many of the blocks are results of calls; they come first. */
  readonly resultCount: number;
};

export type AssistantTurn = {
  readonly role: "assistant";
  readonly blocks: readonly string[];
  /** Whether it begins with thinking. */
  readonly thinks: boolean;
};

export type Turns = {
  readonly turns: readonly Turn[];
  /** Of prelude, tools and messages: the thinking of a reply is bound to what it replies to. */
  readonly digest: string;
};

/**
 * Puts a conversation into turns as the API takes them: users and assistants alternate, and a user comes
 * first and last. Thinking goes back to the model that it came from, as long as nothing before it has
 * changed: the provider refuses a request in which something has, and would refuse it for ever.
 */
export function turnsOf(ask: Ask): Turns {
  const tools = ask.tools.map(({ name, description, parameters }) => [
    name,
    description,
    parameters,
  ]);
  const hash = createHash("sha256").update(JSON.stringify([ask.prelude, tools]));
  const digest = () => hash.copy().digest("hex");
  const drafts: Draft[] = [];
  const add = (draft: Draft) => {
    for (const block of draft.plain) hash.update(`${draft.role} ${block.length} ${block}`);
    drafts.push(draft);
  };
  let changedCount = 0;
  for (const message of ask.messages) {
    switch (message.kind) {
      case "user":
        add({ role: "user", plain: userBlocks(message), results: false });
        break;
      case "tool":
        add({ role: "user", plain: [resultBlock(message)], results: true });
        break;
      case "assistant": {
        const plain = [...textBlocks(message.text), ...message.calls.map(callBlock)];
        // What is left is thinking at most, which alone is no message.
        if (plain.length === 0) break;
        if (lastOf(drafts)?.role !== "user") add(GO_ON);
        const thinking = readThinking(message.opaque, ask.model);
        const fits = thinking !== null && thinking.before === digest();
        if (thinking !== null && !fits) changedCount = drafts.length + 1;
        const blocks = fits ? blocksWith(message, thinking) : null;
        add({ role: "assistant", plain, blocks, calls: message.calls.length > 0 });
        break;
      }
      default:
        never(message);
    }
  }
  const last = lastOf(drafts);
  // A call that waits for its result is not gone on with.
  if (last === undefined || (last.role === "assistant" && !last.calls)) add(GO_ON);
  // Thinking may be missing from the beginning of a conversation, but not from its middle.
  const sent = drafts.map((draft, index) =>
    draft.role === "assistant" && index < changedCount ? { ...draft, blocks: null } : draft,
  );
  return { turns: merged(sent), digest: digest() };
}

/** What one message says: `plain` is without thinking, `blocks` with it. */
type Draft = UserDraft | AssistantDraft;

type UserDraft = {
  readonly role: "user";
  readonly plain: readonly string[];
  readonly results: boolean;
};

type AssistantDraft = {
  readonly role: "assistant";
  readonly plain: readonly string[];
  /** Null: its thinking does not go along, or there is none. */
  readonly blocks: readonly string[] | null;
  readonly calls: boolean;
};

/** Said for a user who has said nothing, where the API does not do without one. */
const GO_ON: Draft = { role: "user", plain: [textBlock("Go on.")], results: false };

function lastOf(drafts: readonly Draft[]): Draft | undefined {
  return drafts.findLast((draft) => draft.plain.length > 0);
}

/** Makes one turn of what a user and tools say in a row; the API wants the results first. */
function merged(drafts: readonly Draft[]): readonly Turn[] {
  const turns: Turn[] = [];
  for (const draft of drafts) {
    if (draft.role === "assistant") {
      const blocks = draft.blocks ?? draft.plain;
      turns.push({ role: "assistant", blocks, thinks: isThought(blocks[0] ?? "") });
    } else if (draft.plain.length > 0) {
      const last = turns.at(-1);
      if (last?.role === "user") turns.pop();
      turns.push(joined(last?.role === "user" ? last : NO_TURN, draft));
    }
  }
  return turns;
}

const NO_TURN: UserTurn = { role: "user", blocks: [], resultCount: 0 };

function joined({ blocks, resultCount }: UserTurn, { plain, results }: UserDraft): UserTurn {
  if (!results) return { role: "user", blocks: [...blocks, ...plain], resultCount };
  return {
    role: "user",
    blocks: blocks.toSpliced(resultCount, 0, ...plain),
    resultCount: resultCount + plain.length,
  };
}

/** The blocks of a message in the order in which the model wrote them. */
function blocksWith(message: AssistantMessage, { blocks }: Thinking): readonly string[] {
  let unitsDone = 0;
  let callsDone = 0;
  const ordered = blocks.flatMap((block) => {
    switch (block.type) {
      case "text": {
        const start = unitsDone;
        unitsDone += block.units;
        return textBlocks(message.text.slice(start, unitsDone));
      }
      case "tool_use": {
        const call = message.calls[callsDone];
        callsDone += 1;
        return call === undefined ? [] : [callBlock(call)];
      }
      default:
        return [JSON.stringify(block)];
    }
  });
  const rest = textBlocks(message.text.slice(unitsDone));
  const all = [...ordered, ...rest, ...message.calls.slice(callsDone).map(callBlock)];
  // Where calls were not kept, thinking may have come to the end, and the API takes none there.
  return all.slice(0, all.findLastIndex((block) => !isThought(block)) + 1);
}

function isThought(block: string): boolean {
  return /^\{"type":"(?:redacted_)?thinking"/.test(block);
}

/** The API takes no text that is empty, or nothing but space. */
function textBlocks(text: string): readonly string[] {
  return text.trim() === "" ? [] : [textBlock(text)];
}

function textBlock(text: string): string {
  return JSON.stringify({ type: "text", text: wellFormed(text) });
}

function userBlocks({ text, images }: UserMessage): readonly string[] {
  const shown = images.map(({ mediaType, data }) =>
    JSON.stringify({ type: "image", source: { type: "base64", media_type: mediaType, data } }),
  );
  return [...shown, ...textBlocks(text)];
}

function resultBlock({ ref, text, failed }: ToolMessage): string {
  // The API takes no empty result of a call that failed.
  const content = text.trim() === "" ? "(no text)" : wellFormed(text);
  const error = failed ? { is_error: true } : {};
  return JSON.stringify({ type: "tool_result", tool_use_id: idOf(ref), content, ...error });
}

/** The arguments go in as they are written: what JSON can hold and an object cannot is not lost. */
function callBlock({ ref, op }: Call): string {
  const { name, arguments: input } = renderCall(op);
  const head = JSON.stringify({ type: "tool_use", id: idOf(ref), name }).slice(0, -1);
  return `${head},"input":${input.replace(JSON_UNITS, (unit) => (isHalf(unit) ? "\\ufffd" : unit))}}`;
}

/** Of JSON text: an escaped surrogate pair, any other escape, and half a pair as it is. */
const JSON_UNITS =
  /\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|\p{Surrogate}/gu;

/** Whether it is half of a surrogate pair, which the API takes for an error in the request. */
function isHalf(unit: string): boolean {
  return /^(?:\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\p{Surrogate})$/u.test(unit);
}

/** Another API's ids may have characters that this one refuses. */
function idOf(ref: string): string {
  return ref.replace(/[^A-Za-z0-9_-]/g, (unit) => `_${unit.charCodeAt(0).toString(16)}`);
}
