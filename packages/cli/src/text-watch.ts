import { styleText } from "node:util";
import type { Action, Event, Outcome } from "@dev/protocol";
import { never } from "@dev/protocol";
import type { Progress, TurnEnd } from "@dev/session";
import type { Activity } from "./activity.ts";
import { countText, grouped } from "./figure.ts";
import { headline, note } from "./headline.ts";
import { statusOf } from "./item.ts";
import { faultText, onOneLine, printable } from "./say.ts";
import type { Watch } from "./watch.ts";

/** How many lines of a command that failed are shown. */
const OUTPUT_LINE_LIMIT = 12;

export type TextOutput = {
  readonly out: (text: string) => void;
  readonly activity: Activity;
  /** Whether stderr takes colour. */
  readonly colour: boolean;
};

/** Progress in lines on stderr, and the last message of a turn that is complete on stdout. */
export function textWatch({ out, activity, colour }: TextOutput): Watch {
  const page = pageOf(activity, colour);
  return {
    thread: (id) => page.line(page.dim(`session ${id}`)),
    note: (text) => page.line(page.dim(printable(text))),
    failed: (fault) => page.line(`dev: ${faultText(fault)}`),
    ended: (end) => {
      activity.clear();
      ended(end, out, page);
    },
    progress: (progress) => show(progress, page, activity),
  };
}

/** What lines are written to, and the colours it has. */
type Page = {
  readonly line: (text: string) => void;
  readonly dim: (text: string) => string;
  /** A mark at the head of a line. */
  readonly mark: (mark: Mark) => string;
};

type Mark = "✓" | "✗" | "⊘" | "?";

const COLOURS = { "✓": "green", "✗": "red", "⊘": "yellow", "?": "yellow" } as const;

function pageOf(activity: Activity, colour: boolean): Page {
  const style = (format: Parameters<typeof styleText>[0], text: string): string =>
    colour ? styleText(format, text, { validateStream: false }) : text;
  return {
    line: (text) => activity.above(`${text}\n`),
    dim: (text) => style("dim", text),
    mark: (mark) => style(COLOURS[mark], mark),
  };
}

function show(progress: Progress, page: Page, activity: Activity): void {
  switch (progress.kind) {
    case "started":
      activity.begin(keyOf(progress.action), headline(progress.action));
      return;
    case "answered":
      activity.end(keyOf(progress.action));
      answered(progress.action, progress.event, page);
      return;
    case "retried":
      page.line(page.dim(`asking the model again: ${onOneLine(progress.after.message)}`));
      return;
    case "cell":
      cell(progress.observation, progress.note, page, activity);
      return;
    case "turn_ended":
      activity.clear();
      return;
    case "turn_started":
    case "delta":
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

function answered(action: Action, event: Event, page: Page): void {
  if (event.kind === "model") {
    const { answer } = event;
    // What is said with calls is on the way; what is said without is the end, and goes to stdout.
    const isOnTheWay = answer.kind === "reply" && answer.calls.length > 0 && answer.text !== "";
    if (isOnTheWay) page.line(printable(answer.text));
    return;
  }
  if ("outcome" in event) outcomeLines(action, event.outcome, page);
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
      line(`dev: ${printable(end.reason)}`);
      line(again);
      break;
    case "limit":
      line(`dev: a limit was reached: ${printable(end.reason)}`);
      line(again);
      break;
    default:
      never(end.outcome);
  }
  if (inputTokens + outputTokens === 0) return;
  const cached = cachedTokens === 0 ? "" : ` (${grouped(cachedTokens)} from the cache)`;
  line(dim(`${grouped(inputTokens)} tokens in${cached}, ${grouped(outputTokens)} out`));
}
