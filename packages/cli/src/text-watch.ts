import { styleText } from "node:util";
import type { Action, ActionId, AgentId, Event, Outcome, PlanItem, TurnId } from "@dev/protocol";
import { never } from "@dev/protocol";
import type { Extent, Member, MemberEnd, Progress, TurnEnd } from "@dev/session";
import type { Activity } from "./activity.ts";
import { costText, countText, grouped, sizeText } from "./figure.ts";
import { headline, note, SHORTENING } from "./headline.ts";
import { statusOf, summaryFlaw } from "./item.ts";
import type { Labels } from "./label.ts";
import { reached } from "./limit.ts";
import { openPlans, type Plans } from "./plan.ts";
import { faultText, fitted, onOneLine, printable } from "./say.ts";
import type { Watch } from "./watch.ts";

/** How many lines of a command that failed are shown. */
const OUTPUT_LINE_LIMIT = 12;

export type TextOutput = {
  readonly out: (text: string) => void;
  readonly activity: Activity;
  readonly labels: Labels;
  /** Whether stderr takes colour. */
  readonly colour: boolean;
};

/** Progress in lines on stderr, and the last message of a turn that is complete on stdout. */
export function textWatch({ out, activity, labels, colour }: TextOutput): Watch {
  const page = pageOf(activity, colour);
  const compactions: Scene["compactions"] = new Map();
  const scene: Scene = { page, activity, labels, compactions, plans: openPlans(), turn: null };
  return {
    thread: (id) => page.line(page.dim(`session ${id}`)),
    note: (text) => page.line(page.dim(printable(text))),
    failed: (fault) => page.line(`dev: ${faultText(fault)}`),
    ended: (end) => {
      activity.clear();
      ended(end, out, page);
    },
    progress: (progress) => show(progress, scene),
  };
}

type Scene = {
  readonly page: Page;
  readonly activity: Activity;
  readonly labels: Labels;
  /** The compactions under way, with as much of each summary as has come, in bytes. */
  readonly compactions: Map<ActionId, { readonly extent: Extent; summaryBytes: number }>;
  readonly plans: Plans;
  /** The turn in flight. */
  turn: TurnId | null;
};

/** What lines are written to, and the colours it has. */
type Page = {
  readonly line: (text: string) => void;
  readonly dim: (text: string) => string;
  /** A mark at the head of a line. */
  readonly mark: (mark: Mark) => string;
};

type Mark = "▸" | "✓" | "✗" | "⊘" | "?" | "·";

const COLOURS = {
  "▸": "cyan",
  "✓": "green",
  "✗": "red",
  "⊘": "yellow",
  "?": "yellow",
  "·": "dim",
} as const;

function pageOf(activity: Activity, colour: boolean): Page {
  const style = (format: Parameters<typeof styleText>[0], text: string): string =>
    colour ? styleText(format, text, { validateStream: false }) : text;
  return {
    line: (text) => activity.above(`${text}\n`),
    dim: (text) => style("dim", text),
    mark: (mark) => style(COLOURS[mark], mark),
  };
}

/** The page as an agent's lines go to it: those of a sub-agent say whose they are. */
function pageFor(agent: AgentId, { page, labels }: Scene): Page {
  const label = labels.of(agent);
  if (label === "") return page;
  const head = page.dim(`  ${label}`);
  return { ...page, line: (text) => page.line(text.replace(/^(?=.)/gm, head)) };
}

function show(progress: Progress, scene: Scene): void {
  const { page, activity, labels } = scene;
  switch (progress.kind) {
    case "turn_started":
      scene.turn = progress.turn;
      return;
    case "agent_started":
      labels.take(progress.member);
      memberBegun(progress.member, scene);
      return;
    case "agent_ended":
      memberEnded(progress.member, progress.end, scene);
      return;
    case "compacting":
      scene.compactions.set(progress.action.id, { extent: progress.extent, summaryBytes: 0 });
      compacting(progress.action, scene);
      return;
    case "started":
      if (scene.compactions.has(progress.action.id)) return;
      activity.begin(
        keyOf(progress.action),
        labels.of(progress.action.agent) + headline(progress.action),
      );
      return;
    case "delta": {
      const compaction = scene.compactions.get(progress.action.id);
      if (compaction === undefined || progress.delta.kind !== "text") return;
      compaction.summaryBytes += Buffer.byteLength(progress.delta.text);
      compacting(progress.action, scene);
      return;
    }
    case "answered":
      activity.end(keyOf(progress.action));
      answered(progress.action, progress.event, scene);
      return;
    case "late":
      activity.end(keyOf(progress.action));
      late(progress.action, progress.event, scene);
      return;
    case "unanswered":
      unanswered(progress.action, scene);
      return;
    case "overtaken":
      activity.end(keyOf(progress.action));
      overtaken(progress.action, scene);
      return;
    case "retried":
      pageFor(progress.action.agent, scene).line(
        page.dim(`asking the model again: ${onOneLine(progress.after.message)}`),
      );
      return;
    case "cell":
      cell(progress.observation, progress.note, page, activity);
      return;
    case "turn_ended":
      // A message that answered a question was a turn of its own: the one in flight goes on.
      if (progress.turn === scene.turn) activity.clear();
      return;
    case "output":
    case "said":
      return;
    default:
      never(progress);
  }
}

function keyOf(action: Action): string {
  return String(action.id);
}

/** Of what a sub-agent is to do, and of what it says in the end, what is shown, in columns. */
const GIST_LIMIT = 72;

function gistOf(text: string): string {
  return fitted(onOneLine(text.trim().split("\n")[0] ?? ""), GIST_LIMIT);
}

function memberBegun({ agent, task }: Member, { page, labels }: Scene): void {
  page.line(`${page.mark("▸")} ${labels.of(agent)}${page.dim(gistOf(task))}`);
}

const END_MARKS = { complete: "✓", failed: "✗", limit: "⊘", stopped: "⊘" } as const;
const END_WORDS = {
  complete: "done",
  failed: "failed",
  limit: "a limit was reached",
  stopped: "stopped",
} as const;

function memberEnded({ agent }: Member, end: MemberEnd, { page, labels }: Scene): void {
  const gist = gistOf(end.outcome === "limit" ? reached(end.text).text : end.text);
  const words = END_WORDS[end.outcome];
  const said = gist === "" ? "" : `: ${gist}`;
  page.line(`${page.mark(END_MARKS[end.outcome])} ${labels.of(agent)}${words}${page.dim(said)}`);
}

/** Says, while it runs, how far a compaction is. */
function compacting(action: Action, { activity, labels, compactions }: Scene): void {
  const compaction = compactions.get(action.id);
  if (compaction === undefined) return;
  const { extent, summaryBytes } = compaction;
  const sofar = summaryBytes === 0 ? "" : ` → ${sizeText(summaryBytes)}`;
  const what = `${SHORTENING}: ${extentText(extent)}${sofar}`;
  activity.begin(keyOf(action), labels.of(action.agent) + what);
}

function extentText({ messageCount, sizeBytes }: Extent): string {
  return `${countText(messageCount, "message")}, ${sizeText(sizeBytes)}`;
}

function compacted(
  action: Action,
  { answer }: Extract<Event, { kind: "model" }>,
  extent: Extent,
  scene: Scene,
): void {
  const { line, mark, dim } = pageFor(action.agent, scene);
  const from = extentText(extent);
  switch (answer.kind) {
    case "reply": {
      const flaw = summaryFlaw(answer);
      if (flaw !== null) {
        line(`${mark("✗")} ${SHORTENING}: ${from}  ${dim(flaw)}`);
        return;
      }
      const size = sizeText(Buffer.byteLength(answer.text));
      line(`${mark("✓")} conversation shortened${dim(`: ${from} → a summary of ${size}`)}`);
      return;
    }
    case "failed": {
      const why = onOneLine(answer.fault.message);
      line(`${mark("✗")} ${SHORTENING}: ${from}  ${dim(why)}`);
      return;
    }
    case "cancelled":
      line(`${mark("⊘")} ${SHORTENING}: ${from}  ${dim("stopped")}`);
      return;
    default:
      never(answer);
  }
}

/** What came of an action whose turn has ended: what a model said is heard by nobody. */
function late(action: Action, event: Event, scene: Scene): void {
  const isMessage = event.kind === "model" && !scene.compactions.has(action.id);
  if (!isMessage) answered(action, event, scene);
}

function unanswered(action: Action, scene: Scene): void {
  const { line, mark, dim } = pageFor(action.agent, scene);
  line(`${mark("?")} ${headline(action)}  ${dim("nobody was there to answer")}`);
}

function overtaken(action: Action, scene: Scene): void {
  const { line, mark, dim } = pageFor(action.agent, scene);
  line(`${mark("✓")} ${headline(action)}  ${dim("answered by your message")}`);
}

type Observed = Extract<Progress, { kind: "cell" }>["observation"];

function cell(observation: Observed, note: string, page: Page, activity: Activity): void {
  switch (observation) {
    case "requested":
    case "starting":
    case "provisioning":
      activity.begin("cell", note === "" ? "starting the cell" : note);
      return;
    case "stopping":
      page.line(page.dim("waiting for what the cell was doing …"));
      activity.begin("cell", "waiting for what the cell was doing");
      return;
    case "ready":
    case "stopped":
    case "gone":
    case "failed":
      activity.end("cell");
      return;
    default:
      never(observation);
  }
}

function answered(action: Action, event: Event, scene: Scene): void {
  const page = pageFor(action.agent, scene);
  if (event.kind === "model") {
    const compaction = scene.compactions.get(action.id);
    scene.compactions.delete(action.id);
    if (compaction !== undefined) {
      compacted(action, event, compaction.extent, scene);
      return;
    }
    const { answer } = event;
    // What is said with calls is on the way; what is said without is the end, and goes to stdout.
    const isOnTheWay = answer.kind === "reply" && answer.calls.length > 0 && answer.text !== "";
    if (isOnTheWay) page.line(printable(answer.text));
    const plan = scene.plans.take(action, event);
    if (plan !== null) planLines(plan, page);
    return;
  }
  if ("outcome" in event) outcomeLines(action, event.outcome, page);
}

const PLAN_MARKS = { done: "✓", active: "▸", pending: "·" } as const;

function planLines(items: readonly PlanItem[], { line, mark, dim }: Page): void {
  line(dim(items.length === 0 ? "the plan is empty" : "the plan:"));
  for (const { text, status } of items) line(`  ${mark(PLAN_MARKS[status])} ${onOneLine(text)}`);
}

function outcomeLines(action: Action, outcome: Outcome, page: Page): void {
  const { line, dim, mark } = page;
  const head = headline(action);
  switch (outcome.kind) {
    case "ok": {
      const failed = statusOf(outcome) === "failed";
      const said = note(outcome.result);
      line(`${mark(failed ? "✗" : "✓")} ${head}${said === "" ? "" : dim(`  ${said}`)}`);
      if (failed) for (const each of lastLines(outcome)) line(dim(`    ${each}`));
      return;
    }
    case "failed":
      line(`${mark("✗")} ${head}  ${dim(onOneLine(outcome.fault.message))}`);
      return;
    case "refused":
      line(`${mark("⊘")} ${head}  ${dim(onOneLine(`refused: ${outcome.reason}`))}`);
      return;
    case "unknown":
      line(`${mark("?")} ${head}  ${dim("unknown whether it finished")}`);
      return;
    case "cancelled":
      line(`${mark("⊘")} ${head}  ${dim("stopped")}`);
      return;
    default:
      never(outcome);
  }
}

function lastLines(outcome: Extract<Outcome, { kind: "ok" }>): readonly string[] {
  const { result } = outcome;
  if (result.kind !== "exec") return [];
  const all = printable(`${result.stdout}\n${result.stderr}`.trim()).split("\n");
  const lines = all
    .slice(-OUTPUT_LINE_LIMIT)
    .filter((_, at, kept) => at > 0 || kept.join("") !== "");
  const left = all.length - lines.length;
  return left > 0 ? [`(${countText(left, "line")} before)`, ...lines] : lines;
}

const BEGIN_ANEW = `a session keeps the limits that it began with: begin a new one with a higher limit`;

function ended(end: TurnEnd, out: (text: string) => void, { line, dim }: Page): void {
  const { inputTokens, cachedTokens, outputTokens } = end.usage;
  const again = `go on where it stopped: dev resume ${end.session}`;
  switch (end.outcome) {
    case "complete":
      if (end.message !== "") out(`${end.message}\n`);
      break;
    case "cancelled":
      line(`stopped; go on with: dev resume ${end.session}`);
      break;
    case "failed":
      // What was cut or refused is no whole answer, and it is all that there is.
      if (end.answer !== "") out(`${end.answer}\n`);
      line(`dev: ${printable(end.reason)}`);
      line(again);
      break;
    case "limit": {
      if (end.answer !== "") out(`${end.answer}\n`);
      const { text, isSessions } = reached(end.reason);
      line(`dev: a limit was reached: ${printable(text)}`);
      line(isSessions ? BEGIN_ANEW : again);
      break;
    }
    default:
      never(end.outcome);
  }
  if (inputTokens + outputTokens === 0) return;
  const cached = cachedTokens === 0 ? "" : ` (${grouped(cachedTokens)} from the cache)`;
  const cost = end.costMicroUsd === 0 ? "" : `, ${costText(end.costMicroUsd)}`;
  line(dim(`${grouped(inputTokens)} tokens in${cached}, ${grouped(outputTokens)} out${cost}`));
}
