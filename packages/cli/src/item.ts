import type {
  Action,
  EffectEvent,
  Event,
  ExecOp,
  GitOp,
  ModelAnswer,
  Outcome,
  PlanItem,
} from "@dev/protocol";
import { never, ROOT_AGENT } from "@dev/protocol";
import type { Extent, Member, MemberEnd } from "@dev/session";
import { reached } from "./limit.ts";

/** What `--json` says of one thing that happened; `id` is the same for the whole of its life. */
export type Item = {
  readonly id: string;
  readonly type:
    | "agent_message"
    | "reasoning"
    | "command_execution"
    | "file_change"
    | "file_read"
    | "search"
    | "tool_call"
    | "question"
    | "plan"
    | "compaction"
    | "sub_agent";
  /** Of every item that is an action's: a sub-agent is none. */
  readonly action_id?: number;
  /** Whose it is, or which it is; left out for the session's own agent. */
  readonly agent?: number;
  readonly status?: Status;
  readonly [field: string]: unknown;
};

export type Status =
  | "in_progress"
  | "completed"
  | "failed"
  | "refused"
  | "unknown"
  | "cancelled"
  /** Of a sub-agent alone. */
  | "limit";

/** The item of an action, as it begins; null for one that is no item. */
export function itemOf(action: Action): Item | null {
  const { op } = action;
  const base = baseOf(action);
  switch (op.kind) {
    case "exec":
      return { ...base, type: "command_execution", ...commandOf(op), cwd: op.cwd };
    case "git":
      return { ...base, type: "command_execution", ...commandOf(op), cwd: "." };
    case "write":
    case "patch":
      return { ...base, type: "file_change", path: op.path, change: op.kind };
    case "read":
      return { ...base, type: "file_read", path: op.path };
    case "search":
      return { ...base, type: "search", pattern: op.pattern, path: op.path, match: op.match };
    case "question":
      return { ...base, type: "question", text: op.text, choices: op.choices };
    case "browse":
      return { ...base, type: "tool_call", name: "browse", url: op.url };
    case "tool":
      return { ...base, type: "tool_call", name: `${op.server}/${op.name}` };
    case "model":
    case "emit":
    case "save":
    case "done":
      return null;
    default:
      return never(op);
  }
}

function baseOf({ id, agent }: Action): Pick<Item, "id" | "action_id" | "agent"> {
  return { id: `item_${id}`, action_id: id, ...(agent !== ROOT_AGENT && { agent }) };
}

/** The item of a sub-agent, the same for all of its life. */
export function memberItem({ agent, parent, kind, task }: Member): Item {
  return { id: `agent_${agent}`, type: "sub_agent", agent, parent, kind, task };
}

const MEMBER_STATUSES: Readonly<Record<MemberEnd["outcome"], Status>> = {
  complete: "completed",
  failed: "failed",
  limit: "limit",
  stopped: "cancelled",
};

export function memberItemEnded(member: Member, { outcome, text }: MemberEnd): Item {
  const item = { ...memberItem(member), status: MEMBER_STATUSES[outcome] };
  return outcome === "limit" ? { ...item, reason: reached(text).text } : { ...item, text };
}

/** The item of a compaction, of so much. */
export function compactionItem(action: Action, { messageCount, sizeBytes }: Extent): Item {
  const extent = { message_count: messageCount, size_bytes: sizeBytes };
  return { ...baseOf(action), type: "compaction", ...extent };
}

export function compactionItemEnded(
  item: Item,
  { answer }: Extract<Event, { kind: "model" }>,
): Item {
  if (answer.kind === "failed") return { ...item, status: "failed", error: answer.fault };
  if (answer.kind === "cancelled") return { ...item, status: "cancelled" };
  const { text } = answer;
  const flaw = summaryFlaw(answer);
  if (flaw !== null) return { ...item, status: "failed", text, error: { message: flaw } };
  return { ...item, status: "completed", text, summary_bytes: Buffer.byteLength(text) };
}

/** Why the answer to a compaction is no summary; null: it is one. */
export function summaryFlaw({ text, stop }: Reply): string | null {
  if (stop === "refusal") return "the model refused to answer";
  return text.trim() === "" ? "the answer is empty" : null;
}

type Reply = Extract<ModelAnswer, { readonly kind: "reply" }>;

/** The item of an agent's plan, as an answer changes it. */
export function planItem(action: Action, items: readonly PlanItem[]): Item {
  return { ...modelItem(action, "plan"), items, status: "completed" };
}

/** The item of a question that nobody was there to answer. */
export function unansweredItem(action: Action): Item | null {
  const item = itemOf(action);
  return item && { ...item, status: "completed", answer: "", chosen: [], answered_by: "nobody" };
}

/** The item of a question that a person's message answered. */
export function overtakenItem(action: Action, text: string): Item | null {
  const item = itemOf(action);
  return item && { ...item, status: "completed", answer: text, chosen: [], answered_by: "message" };
}

/** The items that an answered action ends with: a model's reply may be two. */
export function itemsEnded(action: Action, event: Event): readonly Item[] {
  if (event.kind === "model") return modelItems(action, event);
  const item = itemOf(action);
  if (item === null) return [];
  if (event.kind === "reply") {
    return [{ ...item, status: "completed", answer: event.text, chosen: event.choices }];
  }
  if (!("outcome" in event)) return [];
  return [{ ...item, ...ended(event) }];
}

function modelItems(action: Action, event: Extract<Event, { kind: "model" }>): readonly Item[] {
  const { answer } = event;
  if (answer.kind === "failed") return [];
  const items: Item[] = [];
  if (answer.kind === "reply" && answer.reasoning !== "") {
    items.push({ ...modelItem(action, "reasoning"), status: "completed", text: answer.reasoning });
  }
  const text = answer.kind === "reply" ? answer.text : answer.partial;
  const status = answer.kind === "reply" ? "completed" : "cancelled";
  if (text !== "") items.push({ ...modelItem(action, "agent_message"), status, text });
  return items;
}

/** The item of what a model says, before it is known whole. */
export function modelItem(action: Action, type: "agent_message" | "reasoning" | "plan"): Item {
  return { ...baseOf(action), id: `item_${action.id}_${type}`, type };
}

function ended(event: EffectEvent): { readonly status: Status; readonly [field: string]: unknown } {
  const { outcome } = event;
  switch (outcome.kind) {
    case "ok":
      return { status: statusOf(outcome), ...resultFields(outcome) };
    case "failed":
      return { status: "failed", error: outcome.fault };
    case "refused":
      return { status: "refused", rule: outcome.rule, reason: outcome.reason };
    case "unknown":
    case "cancelled":
      return { status: outcome.kind, known: outcome.known };
    default:
      return never(outcome);
  }
}

/** An outcome in one word. A command that ran and did not exit with 0 is `failed` for a reader. */
export function statusOf(outcome: Outcome): Status {
  if (outcome.kind !== "ok") return outcome.kind;
  const { result } = outcome;
  if (result.kind === "tool") return result.failed ? "failed" : "completed";
  if (result.kind !== "exec") return "completed";
  const { end } = result;
  return (end.kind === "exit" && end.code === 0) || end.kind === "background"
    ? "completed"
    : "failed";
}

function resultFields(outcome: Extract<Outcome, { kind: "ok" }>): Record<string, unknown> {
  const { result } = outcome;
  switch (result.kind) {
    case "exec":
      return {
        exit_code: result.end.kind === "exit" ? result.end.code : null,
        end: result.end,
        stdout: result.stdout,
        stderr: result.stderr,
        stdout_cut_bytes: result.stdoutCutBytes,
        stderr_cut_bytes: result.stderrCutBytes,
        duration_ms: result.durationMs,
        output_path: result.outputPath,
      };
    case "write":
      return {
        added_lines: result.addedLines,
        removed_lines: result.removedLines,
        before: result.before,
        after: result.after,
      };
    case "read":
      return { size_bytes: result.sizeBytes, digest: result.digest };
    case "search":
      return { match_count: result.matches.length, cut: result.cut };
    case "browse":
      return { http_status: result.status };
    case "tool":
      return { text: result.text };
    default:
      return never(result);
  }
}

function commandOf(op: ExecOp | GitOp): {
  readonly command: string;
  readonly argv: readonly string[];
} {
  const argv = op.kind === "git" ? ["git", ...op.argv] : op.argv;
  return { command: shellText(argv), argv };
}

/** A command as a person would write it for a shell; `sh -c` shows its script alone. */
export function shellText(argv: readonly string[]): string {
  const [shell = "", flag, script, ...rest] = argv;
  if (
    /(^|\/)(ba|da|z)?sh$/.test(shell) &&
    /^-l?c$/.test(flag ?? "") &&
    script &&
    rest.length === 0
  ) {
    return script;
  }
  return argv
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`))
    .join(" ");
}
