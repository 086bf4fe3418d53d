import type { Action, ActionId, Event, Fault } from "@dev/protocol";
import { never, ROOT_AGENT } from "@dev/protocol";
import type { Progress, TurnEnd } from "@dev/session";
import {
  compactionItem,
  compactionItemEnded,
  type Item,
  itemOf,
  itemsEnded,
  memberItem,
  memberItemEnded,
  modelItem,
  overtakenItem,
  planItem,
  unansweredItem,
} from "./item.ts";
import { reached } from "./limit.ts";
import { openPlans, type Plans } from "./plan.ts";

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
  const items = itemStream((object) => print(`${JSON.stringify(object)}\n`));
  const { say } = items;
  /** Why the last answer of the session's own model was none. */
  let failure: Fault | null = null;
  return {
    thread: (id) => say({ type: "thread.started", thread_id: id }),
    failed: (fault) => {
      items.cutAllOff("failed");
      say({ type: "error", ...errorOf(fault) });
    },
    note: () => {},
    ended: (end) => {
      items.cutAllOff("cancelled");
      say(endOf(end, failure));
    },
    progress: (progress) => {
      if (progress.kind === "answered" && progress.action.agent === ROOT_AGENT) {
        failure = failureOf(progress.event);
      }
      tell(progress, items);
    },
  };
}

/** What is said of items, each begun once and ended once. */
type ItemStream = {
  readonly say: (object: unknown) => void;
  readonly begin: (item: Item) => void;
  /** A piece of what a model says. */
  readonly piece: (item: Item, action: ActionId, text: string) => void;
  readonly end: (item: Item) => void;
  /** Ends what an action was saying and has not said to its end. */
  readonly cutOff: (status: CutStatus, action: ActionId) => void;
  /** Ends all that has begun and has no end. */
  readonly cutAllOff: (status: CutStatus) => void;
  /** The compactions under way. */
  readonly compactions: Map<ActionId, Item>;
  /** The questions that nobody was there to answer, until their answer says so. */
  readonly unanswered: Set<ActionId>;
  readonly plans: Plans;
  /** What was said, by the model actions of this process: an `emit` of these says nothing new. */
  readonly said: Set<string>;
};

type CutStatus = "failed" | "cancelled" | "completed";

function itemStream(say: (object: unknown) => void): ItemStream {
  const begun = new Set<string>();
  /** What has begun and has no end. */
  const open = new Map<string, Item>();
  /** What a model is saying, with as much of its text as has come. */
  const streamed = new Map<string, { item: Item; readonly action: ActionId; text: string }>();
  const begin = (item: Item): void => {
    if (begun.has(item.id)) return;
    begun.add(item.id);
    open.set(item.id, item);
    say({ type: "item.started", item: { ...item, status: "in_progress" } });
  };
  const complete = (item: Item): void => {
    streamed.delete(item.id);
    open.delete(item.id);
    say({ type: "item.completed", item });
  };
  const cutOff = (status: CutStatus, of: ActionId | null): void => {
    for (const { item, action, text } of streamed.values()) {
      if (of === null || action === of) complete({ ...item, text, status });
    }
  };
  return {
    say,
    begin,
    piece: (item, action, text) => {
      begin(item);
      const before = streamed.get(item.id)?.text ?? "";
      streamed.set(item.id, { item, action, text: before + text });
      say({ type: "item.updated", item: { ...item, delta: text } });
    },
    end: (item) => {
      begin(stripped(item));
      complete(item);
    },
    cutOff,
    cutAllOff: (status) => {
      cutOff(status, null);
      // Of an effect that never answered nobody can say whether it happened.
      for (const item of open.values()) {
        complete({ ...item, status: isEffects(item) ? "unknown" : status });
      }
    },
    compactions: new Map(),
    unanswered: new Set(),
    plans: openPlans(),
    said: new Set(),
  };
}

function tell(progress: Progress, items: ItemStream): void {
  const { say, begin, end } = items;
  switch (progress.kind) {
    case "turn_started":
      say({ type: "turn.started", turn: progress.turn });
      return;
    case "agent_started":
      begin(memberItem(progress.member));
      return;
    case "agent_ended":
      end(memberItemEnded(progress.member, progress.end));
      return;
    case "compacting": {
      const item = compactionItem(progress.action, progress.extent);
      items.compactions.set(progress.action.id, item);
      begin(item);
      return;
    }
    case "started": {
      const item = itemOf(progress.action);
      if (item !== null) begin(item);
      return;
    }
    case "delta": {
      const { action, delta } = progress;
      const type = delta.kind === "text" ? "agent_message" : "reasoning";
      const item = items.compactions.get(action.id) ?? modelItem(action, type);
      // What a model thinks about a summary is none of the summary.
      if (item.type === "compaction" && delta.kind === "reasoning") return;
      items.piece(item, action.id, delta.text);
      return;
    }
    case "output": {
      const item = itemOf(progress.action);
      const { stream, text } = progress;
      say({ type: "item.updated", item: { ...item, stream, delta: text } });
      return;
    }
    case "answered":
      answered(progress.action, progress.event, items);
      planned(progress.action, progress.event, items);
      return;
    case "late":
      late(progress.action, progress.event, items);
      return;
    case "unanswered":
      items.unanswered.add(progress.action.id);
      return;
    case "overtaken": {
      const item = overtakenItem(progress.action, progress.text);
      if (item !== null) end(item);
      return;
    }
    case "said": {
      if (items.said.delete(progress.text)) return;
      const item = { ...modelItem(progress.action, "agent_message"), text: progress.text };
      say({ type: "item.completed", item: { ...item, status: "completed" } });
      return;
    }
    case "retried":
      say({ type: "error", ...errorOf(progress.after), retried: true });
      return;
    case "cell":
    case "turn_ended":
      return;
    default:
      never(progress);
  }
}

function answered(action: Action, event: Event, items: ItemStream): void {
  const compaction = items.compactions.get(action.id);
  if (compaction !== undefined && event.kind === "model") {
    items.compactions.delete(action.id);
    items.end(compactionItemEnded(compaction, event));
    return;
  }
  const unanswered = items.unanswered.delete(action.id) ? unansweredItem(action) : null;
  if (unanswered !== null) {
    items.end(unanswered);
    return;
  }
  for (const item of itemsEnded(action, event)) {
    if (item.type === "agent_message") items.said.add(String(item.text));
    items.end(item);
  }
  if (event.kind === "model") items.cutOff(ENDS[event.answer.kind], action.id);
}

function planned(action: Action, event: Event, items: ItemStream): void {
  const plan = items.plans.take(action, event);
  if (plan !== null) items.end(planItem(action, plan));
}

/** Ends the items of an action whose turn has ended. */
function late(action: Action, event: Event, items: ItemStream): void {
  if (event.kind !== "reply") {
    answered(action, event, items);
    return;
  }
  const item = itemOf(action);
  if (item !== null) items.end({ ...item, status: "cancelled" });
}

/** What is left of what was streamed once there is an answer, by the answer. */
const ENDS = { reply: "completed", failed: "failed", cancelled: "cancelled" } as const;

function isEffects({ type }: Item): boolean {
  return EFFECT_TYPES.includes(type);
}

const EFFECT_TYPES: readonly Item["type"][] = [
  "command_execution",
  "file_change",
  "file_read",
  "search",
  "tool_call",
];

/** What an item was when it began: for one that was refused before it did. */
function stripped(item: Item): Item {
  const { id, type, action_id, agent, command, argv, cwd, path, change, text, pattern } = item;
  const known = { id, type, action_id, agent, command, argv, cwd, path, change, pattern };
  const began = type === "question" ? { ...known, text } : known;
  return JSON.parse(JSON.stringify(began)) as Item;
}

function errorOf(fault: Fault): Record<string, string> {
  return { code: fault.code, message: fault.message, subject: fault.subject, mend: fault.mend };
}

function reasonOf({ outcome, reason }: TurnEnd): string {
  return outcome === "limit" ? reached(reason).text : reason;
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
    ...(end.costMicroUsd > 0 && { cost_micro_usd: end.costMicroUsd }),
  };
  if (end.outcome === "complete") return { type: "turn.completed", turn: end.turn, usage };
  // A turn may go on from the model's fault, and fail for another reason.
  const isModels = end.outcome === "failed" && failure && end.reason.includes(failure.message);
  const error = isModels ? errorOf(failure) : { code: end.outcome, message: reasonOf(end) };
  return { type: "turn.failed", turn: end.turn, error, usage };
}
