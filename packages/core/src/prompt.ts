import type { TurnEvent, UserMessage } from "@dev/protocol";
import type { Config } from "./config.ts";

/** The message that a turn's prompt becomes: the same one each time, so that it is weighed once. */
export function prompted(event: TurnEvent): UserMessage {
  const known = prompts.get(event);
  if (known !== undefined) return known;
  const made: UserMessage = { kind: "user", text: event.prompt, images: event.images };
  prompts.set(event, made);
  return made;
}

const prompts: WeakMap<TurnEvent, UserMessage> = /* @__PURE__ */ new WeakMap();

/** What a person who prompts `/compact` wants kept above all, or null for any other prompt. */
export function focusOf({ prompt, images }: TurnEvent): string | null {
  if (images.length > 0) return null;
  if (prompt === COMPACT) return "";
  const isCommand = prompt.startsWith(`${COMPACT} `) || prompt.startsWith(`${COMPACT}\n`);
  return isCommand ? prompt.slice(COMPACT.length).trim() : null;
}

const COMPACT = "/compact";

/** Whether a prompt may be a person's answer to what a model has asked. */
export function isAnswer(event: TurnEvent): boolean {
  return event.prompt !== "" && event.images.length === 0 && focusOf(event) === null;
}

/** Why the model could not see a prompt, or null when it can. */
export function unseen(config: Config, { images }: TurnEvent): string | null {
  if (images.length === 0 || config.images) return null;
  return `the prompt has images, and ${config.model} takes none`;
}
