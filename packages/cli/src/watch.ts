import type { Event, Fault } from "@dev/protocol";
import type { Progress, TurnEnd } from "@dev/session";
import { type Item, itemOf, itemsEnded, modelItem } from "./item.ts";

/** Whoever is shown what a session does. */
export interface Watch {
  thread(id: string): void;
  progress(progress: Progress): void;
  /** The run is over: by the end of a turn, or by what stood in its way. */
  ended(end: TurnEnd): void;
  failed(fault: Fault): void;
  /** Something that a person may want to know, and a program need not. */
  note(text: string): void;
}

/** Prints one JSON object a line, and nothing else, on stdout. */
export function jsonWatch(print: (line: string) => void): Watch {
  const say = (object: unknown): void => print(`${JSON.stringify(object)}\n`);
  const begun = new Set<string>();
  /** What a model is saying, with as much of its text as has come. */
  const streamed = new Map<string, Item & { readonly text: string }>();
  /** What was said, by the model actions of this process: an `emit` of these says nothing new. */
  const said = new Set<string>();
  /** Why the model's last answer was none. */
  let failure: Fault | null = null;
  const begin = (item: Item): void => {
    if (begun.has(item.id)) return;
    begun.add(item.id);
    say({ type: "item.started", item: { ...item, status: "in_progress" } });
  };
  /** Ends what a model was saying and has not said to its end. */
  const cutOff = (status: "failed" | "cancelled" | "completed"): void => {
    for (const item of streamed.values())
      say({ type: "item.completed", item: { ...item, status } });
    streamed.clear();
  };
  return {
    thread: (id) => say({ type: "thread.started", thread_id: id }),
    failed: (fault) => {
      cutOff("failed");
      say({ type: "error", ...errorOf(fault) });
    },
    note: () => {},
    ended: (end) => {
      cutOff("cancelled");
      say(endOf(end, failure));
    },
    progress: (progress) => {
      switch (progress.kind) {
        case "turn_started":
          return say({ type: "turn.started", turn: progress.turn });
        case "started": {
          const item = itemOf(progress.action);
          if (item !== null) begin(item);
          return;
        }
        case "delta": {
          const type = progress.delta.kind === "text" ? "agent_message" : "reasoning";
          const item = modelItem(progress.action, type);
          const { text } = progress.delta;
          begin(item);
          streamed.set(item.id, { ...item, text: (streamed.get(item.id)?.text ?? "") + text });
          return say({ type: "item.updated", item: { ...item, delta: text } });
        }
        case "output": {
          const item = itemOf(progress.action);
          const { stream, text } = progress;
          return say({ type: "item.updated", item: { ...item, stream, delta: text } });
        }
        case "answered":
          failure = failureOf(progress.event);
          for (const item of itemsEnded(progress.action, progress.event)) {
            begin(stripped(item));
            if (item.type === "agent_message") said.add(String(item.text));
            streamed.delete(item.id);
            say({ type: "item.completed", item });
          }
          if (progress.event.kind === "model") cutOff(ENDS[progress.event.answer.kind]);
          return;
        case "said": {
          if (said.delete(progress.text)) return;
          const item = { ...modelItem(progress.action, "agent_message"), text: progress.text };
          return say({ type: "item.completed", item: { ...item, status: "completed" } });
        }
        case "retried":
          return say({ type: "error", ...errorOf(progress.after), retried: true });
        case "cell":
        case "turn_ended":
          return;
      }
    },
  };
}

/** What is left of what was streamed once there is an answer, by the answer. */
const ENDS = { reply: "completed", failed: "failed", cancelled: "cancelled" } as const;

/** What an item was when it began: for one that was refused before it did. */
function stripped(item: Item): Item {
  const { id, type, action_id, command, argv, cwd, path, change, text, pattern } = item;
  const known = { id, type, action_id, command, argv, cwd, path, change, pattern };
  const began = type === "question" ? { ...known, text } : known;
  return JSON.parse(JSON.stringify(began)) as Item;
}

function errorOf(fault: Fault): Record<string, string> {
  return { code: fault.code, message: fault.message, subject: fault.subject, mend: fault.mend };
}

function failureOf(event: Event): Fault | null {
  return event.kind === "model" && event.answer.kind === "failed" ? event.answer.fault : null;
}

function endOf(end: TurnEnd, failure: Fault | null): unknown {
  const { inputTokens, cachedTokens, outputTokens, reasoningTokens } = end.usage;
  const usage = {
    input_tokens: inputTokens,
    cached_input_tokens: cachedTokens,
    output_tokens: outputTokens,
    reasoning_output_tokens: reasoningTokens,
  };
  if (end.outcome === "complete") return { type: "turn.completed", turn: end.turn, usage };
  const isModels = end.outcome === "failed" && failure !== null;
  const error = isModels ? errorOf(failure) : { code: end.outcome, message: end.reason };
  return { type: "turn.failed", turn: end.turn, error, usage };
}
