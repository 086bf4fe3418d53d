import type { Link } from "@dev/cell";
import type { Action, EffectOp, Mode, Outcome, TurnId } from "@dev/protocol";
import { isOperation } from "./argv.ts";
import type { Lease } from "./lease.ts";
import { covers, decide, type Likeness, likeness, pathOf, type Verdict } from "./policy.ts";
import type { Permit } from "./progress.ts";
import type { Services } from "./services.ts";

export type GateTerms = {
  readonly services: Services;
  readonly lease: Lease;
  readonly modeOf: (turn: TurnId) => Mode;
};

/** What an effect passes before it is dispatched: the policy, and a person where that says so. */
export class Gate {
  readonly #terms: GateTerms;
  /** What a person has permitted for as long as this driver lives, to whichever agent. */
  readonly #permits: Likeness[] = [];

  constructor(terms: GateTerms) {
    this.#terms = terms;
  }

  /** What policy says here and now: with what a person has permitted, and with who can be asked. */
  judge(action: Action, link: Link): Verdict {
    const op = action.op as EffectOp;
    const { services, modeOf } = this.#terms;
    if (op.kind === "tool" && !(isOperation(op) && services.operations !== null)) {
      return NO_PERFORMER;
    }
    if (op.kind === "browse" && services.browse === null) return NO_NETWORK;
    const real = this.#real(action);
    const verdict = decide(op, real, modeOf(action.turn), link.boundary, services.rules);
    if (verdict.kind !== "ask") return verdict;
    const { rule, reason } = verdict;
    if (this.#permits.some((permit) => covers(permit, op, real))) return { kind: "allow", rule };
    if (services.asker !== null) return verdict;
    return { kind: "deny", rule, reason: `${reason}; ${UNATTENDED}` };
  }

  /**
   * Why an action may not go, a person having been asked where policy says so; null if it may. Where
   * its turn ended meanwhile it is moot.
   */
  async refusal(
    action: Action,
    verdict: Verdict,
    signal: AbortSignal,
  ): Promise<Extract<Outcome, { kind: "refused" }> | { readonly kind: "moot" } | null> {
    if (verdict.kind === "allow") return null;
    const { rule, reason } = verdict;
    if (verdict.kind === "deny") return { kind: "refused", rule, reason };
    const permit = await this.#ask(action, reason, signal);
    if (signal.aborted) return { kind: "moot" };
    if (permit.kind !== "no") return null;
    const { message } = permit;
    const said = message === "" ? "a person said no" : `a person said no: ${message}`;
    return { kind: "refused", rule, reason: said };
  }

  /** Asks a person about an action, and keeps what they permit for longer. */
  async #ask(action: Action, reason: string, signal: AbortSignal): Promise<Permit> {
    const { asker } = this.#terms.services;
    // As it is while it is asked about: a link that changes meanwhile is not what was permitted.
    const alike = likeness(action.op as EffectOp, this.#real(action));
    const permit = await asker?.permit(action, reason, signal);
    if (permit?.kind === "session" && !signal.aborted) this.#permits.push(alike);
    return permit ?? { kind: "no", message: "" };
  }

  /** What an action's path names behind the workspace's links; null when it has none. */
  #real(action: Action): string | null {
    const { lease, services } = this.#terms;
    const path = pathOf(action.op as EffectOp);
    if (path === null) return null;
    if (lease.workspace === null) throw new Error("a cell is linked before its workspace is known");
    return services.resolve(lease.workspace, path);
  }
}

const NO_PERFORMER: Verdict = {
  kind: "deny",
  rule: "no performer",
  reason: "nothing here performs tool",
};
const NO_NETWORK: Verdict = {
  kind: "deny",
  rule: "network",
  reason: "no rule of the network allows anything",
};
const UNATTENDED = "nobody is there to be asked";
