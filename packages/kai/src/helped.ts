import type { Candidate } from "./candidate.ts";
import { type Help, type Helper, type Miss, NO_COST, type State } from "./help.ts";
import { changesOf, type Passing } from "./hunt.ts";
import { composed, isKept, keep, NONE_KEPT } from "./kept.ts";
import type { Ending } from "./outcome.ts";
import { fingerprint } from "./report/fingerprint.ts";
import type { Report } from "./report/report.ts";
import { confirm, type Settling, settle } from "./settle.ts";
import type { Syntax } from "./syntax/syntax.ts";
import type { Task } from "./task.ts";

/** How a run ended with a helper, or why nothing that it said stands. */
export type Helped = Ending | { readonly kind: "unhelped"; readonly why: string };

export type Asking = {
  readonly helper: Helper;
  readonly state: State;
  /** What was asked beside the search, and is paid for. */
  readonly ahead: Promise<Help>;
  readonly settling: Settling;
  readonly syntax: Syntax;
};

/**
 * Has the verifier try what a helper says, first what was asked ahead, until one answer stands, the
 * helper has no more, or as many as are allowed were tried. One with which fewer tests fail stays, and
 * what is asked next builds on it.
 */
export async function helpedBy(asking: Asking, signal: AbortSignal): Promise<Helped> {
  const { settling, syntax } = asking;
  const { task, before } = settling;
  let { state } = asking;
  let kept = NONE_KEPT;
  let help = await firstOf(asking, signal);
  for (let count = 1; ; count += 1) {
    if (help.kind === "none") {
      task.ledger.note("transition", { to: "not fixed", why: help.why });
      return { kind: "unhelped", why: help.why };
    }
    const { candidate, source } = help;
    const whole = await composed(candidate, kept, task.ground);
    const passing = offered({ ...help, candidate: whole }, settling, state);
    const verdict = await confirm(passing, settling, signal);
    if (!verdict.ok) return { kind: "not_fixed", why: verdict.fault.message, before };
    if (verdict.value.kind === "verified") {
      const ending = await settle([passing], settling, signal);
      if (ending === null) throw new Error("what was verified is settled");
      return ending;
    }
    const isLast = count >= task.options.helpCount;
    if (isLast) return { kind: "unhelped", why: `${count} of its answers were tried` };
    const { proof } = verdict.value;
    if (isKept(state.report, proof, task.ground)) {
      toldProgress(task, state.report, proof.report);
      const keeping = { task, syntax, candidate: whole, proof, number: count };
      ({ kept, state } = await keep(keeping, signal));
    } else state = missed(task, state, { candidate, source, report: proof.report });
    help = await asked(asking, state, "asking the model for another answer", signal);
  }
}

/** What was asked ahead is the least that can be asked: where it has no answer, more is. */
async function firstOf(asking: Asking, signal: AbortSignal): Promise<Help> {
  const { ahead, state, settling } = asking;
  const { task } = settling;
  task.stage("waiting for the model");
  const help = await ahead;
  signal.throwIfAborted();
  if (help.kind === "candidate") return help;
  task.ledger.note("transition", { to: "next", why: help.why });
  return asked(asking, state, "asking the model", signal);
}

async function asked(
  { helper, settling }: Asking,
  state: State,
  stage: string,
  signal: AbortSignal,
): Promise<Help> {
  const { task } = settling;
  if (task.leftMs === 0) return { kind: "none", why: "there is no time left", cost: NO_COST };
  task.stage(stage);
  const own = AbortSignal.any([signal, AbortSignal.timeout(task.leftMs)]);
  const help = await helper.next(state, own);
  task.spend(help.cost);
  signal.throwIfAborted();
  return help;
}

function missed(task: Task, state: State, tried: Omit<Miss, "fingerprint">): State {
  const miss: Miss = { ...tried, fingerprint: fingerprint(tried.report) };
  const isSame = state.history.at(-1)?.fingerprint === miss.fingerprint;
  task.ledger.note("failure", { fingerprint: miss.fingerprint, same_as_before: isSame });
  return { ...state, history: [...state.history, miss] };
}

function toldProgress(task: Task, before: Report, after: Report): void {
  const [was, is] = [before, after].map((each) => each.failedCount ?? each.failures.length);
  task.ledger.note("progress", { failed_before: was, failed_after: is });
  task.note(`with the model's answer ${is} tests fail, and ${was} did; it goes on from there`);
}

function offered(
  help: Extract<Help, { kind: "candidate" }>,
  { task, scene }: Settling,
  { revision }: State,
): Passing {
  const candidate: Candidate = help.candidate;
  const action = task.ledger.begin({
    revision,
    evidence: help.source === "model" ? "a model's answer" : "another way after a failure",
    operation: { kind: "generate", edits: changesOf(candidate, scene) },
    preconditions: [`revision ${revision}`],
    authorization: "copy",
    expected: "the command passes",
    verification: "the whole command",
    source: help.source,
  });
  action.become("attempted");
  action.become("completed", { cost: help.cost });
  action.become("validated");
  task.triedCount += 1;
  return { candidate, action, rank: task.triedCount };
}
