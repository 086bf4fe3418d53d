import { join } from "node:path";
import { ok, type Result } from "@dev/protocol";
import { apply } from "./apply.ts";
import { type Behaviours, behaviours } from "./behaviour.ts";
import { type Comparison, compare, differing } from "./compare.ts";
import type { State } from "./help.ts";
import { changesOf, type Passing } from "./hunt.ts";
import type { Ending, Fix } from "./outcome.ts";
import type { Scene } from "./scene.ts";
import { baseRevision, filesOf, type Task } from "./task.ts";
import { type Proof, type Verification, verify } from "./verify.ts";

/** What the verifier said of a candidate: each is asked about once. */
export type Verdicts = Map<Passing, Promise<Result<Verification>>>;

export const SETTLE_LIMITS = {
  /** How long the whole command may take with a fix in place, from what it took without. */
  verifyFactor: 4,
  verifyExtraMs: 20_000,
  /** Of groups that disagree, how many have their best run whole. */
  verifiedCount: 5,
} as const;

export type Settling = {
  readonly task: Task;
  readonly scene: Scene;
  readonly before: Proof;
  readonly verdicts: Verdicts;
  readonly refuse: (passing: Passing) => void;
  /** What a helper is told; null where there is none. */
  readonly state: State | null;
};

/** Runs the whole command with one that passed, in a clean copy of the tree as it is now. */
export function confirm(
  passing: Passing,
  { task, scene, before, verdicts }: Settling,
  signal: AbortSignal,
): Promise<Result<Verification>> {
  const known = verdicts.get(passing);
  if (known !== undefined) return known;
  const asked = confirmed(passing, task, scene, before, verdicts.size, signal);
  verdicts.set(passing, asked);
  return asked;
}

async function confirmed(
  { candidate, action }: Passing,
  task: Task,
  scene: Scene,
  before: Proof,
  number: number,
  signal: AbortSignal,
): Promise<Result<Verification>> {
  const { ground, options } = task;
  const { verifyFactor, verifyExtraMs } = SETTLE_LIMITS;
  action.become("selected");
  const files = await filesOf(candidate, ground);
  action.become("applied", { to: "a clean copy" });
  const verified = await verify(
    {
      ...ground,
      place: join(ground.scratch, `verify-${number}-${candidate.site.line}`),
      report: scene.report,
      files,
      deadlineMs: before.durationMs * verifyFactor + verifyExtraMs,
    },
    signal,
  );
  if (!verified.ok) {
    action.become("failed", { why: verified.fault.message });
    return verified;
  }
  const { kind, proof } = verified.value;
  const { end, durationMs, report } = proof;
  const said = { end, ms: Math.round(durationMs), failed: report.failures.map(({ test }) => test) };
  if (kind === "refused") {
    action.become("failed", { ...said, why: verified.value.why });
    return verified;
  }
  action.become("verified", { ...said, around: verified.value.around.length });
  task.firstMs ??= task.elapsedMs;
  options.onProgress({ kind: "ran", what: "verify", proof });
  return verified;
}

/**
 * Holds those that passed against each other, and ends the run where one stands, or where they disagree
 * and nothing else tells them apart. Null where the verifier refused all of them.
 */
export async function settle(
  all: readonly Passing[],
  settling: Settling,
  signal: AbortSignal,
): Promise<Ending | null> {
  const { task, refuse } = settling;
  let left = [...all];
  const known = await behave(left, settling, signal);
  const drop = (passing: Passing): void => {
    left = left.filter((each) => each !== passing);
    refuse(passing);
  };
  while (left.length > 0) {
    const candidates = left.map(({ candidate }) => candidate);
    const own =
      known &&
      narrowedTo(
        known,
        left.map((each) => all.indexOf(each)),
      );
    const comparison = compare(candidates, own);
    told(task, left, own, comparison);
    const isSplit = comparison.groups.length > 1;
    const heads = isSplit
      ? comparison.groups
          .slice(0, SETTLE_LIMITS.verifiedCount)
          .flatMap(({ members }) => members[0] ?? [])
      : [];
    const refused: Passing[] = [];
    for (const at of new Set([comparison.chosen, ...heads])) {
      const passing = left[at];
      if (passing === undefined) continue;
      const verdict = await confirm(passing, settling, signal);
      if (!verdict.ok)
        return { kind: "not_fixed", why: verdict.fault.message, before: settling.before };
      if (verdict.value.kind === "refused") refused.push(passing);
    }
    if (refused.length > 0) {
      for (const passing of refused) drop(passing);
      continue;
    }
    const chosen = left[comparison.chosen];
    if (chosen === undefined) throw new Error("what was chosen was not compared");
    if (comparison.kind === "disagreeing") return disagreed(left, comparison, settling, signal);
    return applied(chosen, left, comparison, settling, signal);
  }
  return null;
}

async function behave(
  passing: readonly Passing[],
  { task, scene, before }: Settling,
  signal: AbortSignal,
): Promise<Behaviours | null> {
  if (passing.length < 2) return null;
  const { ground } = task;
  task.stage("comparing what passes");
  const place = join(ground.scratch, `compare-${task.triedCount}`);
  const candidates = passing.map(({ candidate }) => candidate);
  const options = { ...ground, place, sources: scene.sources, baseMs: before.durationMs };
  return behaviours(candidates, options, signal);
}

function narrowedTo(known: Behaviours, places: readonly number[]): Behaviours {
  return { ...known, outcomes: places.map((at) => known.outcomes[at] ?? []) };
}

/** The comparison as the ledger keeps it, so that its thresholds can be measured from it. */
function told(
  task: Task,
  passing: readonly Passing[],
  known: Behaviours | null,
  { kind, chosen, groups }: Comparison,
): void {
  task.ledger.note("compared", {
    decision: kind,
    // No decision service is asked.
    by: "rule",
    chosen: passing[chosen]?.action.action.id,
    candidates: passing.map(({ action, rank, candidate }) => ({
      id: action.action.id,
      rank,
      operator: candidate.operator,
      weight: candidate.weight,
      edits: candidate.edits,
    })),
    groups,
    input_count: known?.inputs.length ?? null,
    differing:
      known?.outcomes.map((one) =>
        known.outcomes.map((other) => Number(differing(one, other).toFixed(4))),
      ) ?? null,
  });
}

/** What disagrees is a helper's to choose from, and otherwise the person's. */
async function disagreed(
  passing: readonly Passing[],
  comparison: Comparison,
  settling: Settling,
  signal: AbortSignal,
): Promise<Ending> {
  const { task, before, state } = settling;
  const { helper } = task.options;
  const heads = comparison.groups.flatMap(({ members: [at = 0], share }) => {
    const head = passing[at];
    return head === undefined ? [] : [{ at, head, share }];
  });
  const fixes = await Promise.all(heads.map(({ head, share }) => fixOf(head, share, task)));
  if (helper !== null && state !== null) {
    const files = fixes.map((each) => each.files);
    const choice = await helper.settle(state, files, comparison.example, signal);
    task.spend(choice.cost);
    task.ledger.note("transition", { to: choice.chosen ?? "ambiguous", why: choice.why });
    const picked = choice.chosen === null ? undefined : heads[choice.chosen];
    if (picked !== undefined) {
      const verdict = await confirm(picked.head, settling, signal);
      if (verdict.ok && verdict.value.kind === "verified") {
        return applied(
          picked.head,
          passing,
          { ...comparison, chosen: picked.at },
          settling,
          signal,
        );
      }
    }
  } else {
    task.ledger.note("transition", { to: "ambiguous", why: "what passes does different things" });
  }
  return { kind: "ambiguous", fixes, comparison, before };
}

async function fixOf({ candidate, action }: Passing, share: number, task: Task): Promise<Fix> {
  const { operator, site } = candidate;
  const { source } = action.action;
  const files = await filesOf(candidate, task.ground);
  return { operator, site, share, candidate, files, source: source === "kai" ? "rule" : source };
}

async function applied(
  chosen: Passing,
  passing: readonly Passing[],
  comparison: Comparison,
  settling: Settling,
  signal: AbortSignal,
): Promise<Ending> {
  const { task, scene, before } = settling;
  const verdict = await confirm(chosen, settling, signal);
  if (!verdict.ok || verdict.value.kind !== "verified") {
    throw new Error("what is applied has been verified");
  }
  for (const other of passing) {
    if (other.action.status === "validated")
      other.action.become("abstained", { for: chosen.action.action.id });
  }
  const share =
    comparison.groups.find(({ members }) => members.includes(comparison.chosen))?.share ?? 1;
  const fix = await fixOf(chosen, share, task);
  const revision = baseRevision(fix.files);
  const files = fix.files.map(({ file }) => file);
  const what = changesOf(chosen.candidate, scene).map((change) => `${change.file}:${change.line}`);
  const edit = task.begin({ kind: "edit", files }, `verified: ${what.join(", ")}`, revision);
  signal.throwIfAborted();
  edit.become("attempted");
  const { journal, owner, onAside, onApply } = task.options;
  const { directory } = task.ground;
  const allowed = onApply?.(fix.files) ?? ok(undefined);
  const written = !allowed.ok
    ? allowed
    : await apply(fix.files, { directory, journal, owner, onAside });
  if (!written.ok) {
    edit.become("failed", { why: written.fault.message });
    return { kind: "not_fixed", why: written.fault.message, before };
  }
  edit.become("completed");
  edit.become("validated");
  edit.become("selected");
  edit.become("applied", {
    revision: baseRevision(fix.files.map((file) => ({ ...file, before: file.after }))),
  });
  edit.become("verified", { by: chosen.action.action.id });
  return { kind: "verified", fix, proof: verdict.value, before };
}
