import type { Action, ActionId, Fault, Outcome, Result, SessionId } from "@dev/protocol";
import { withheld } from "./policy.ts";
import type { OpenAction } from "./recovery.ts";
import type { Services } from "./services.ts";

/** An action of Dev's own that is performed beside the cell, and where. */
export type Operation = {
  readonly session: SessionId;
  readonly action: Action;
  /** The directory on this machine that the session works on. */
  readonly workspace: string;
  /** Why the policy keeps a file below the workspace from being written; null if it does not. */
  readonly withheld: (path: string) => string | null;
  /** What a person may see of it while it goes on. */
  readonly onOutput: (text: string) => void;
};

/** Performs what is no cell's to do: the `tool` ops of the server `dev`. */
export interface Operations {
  /** Never rejects for what the world does; an abort ends it soon, and is told as `cancelled`. */
  perform(operation: Operation, signal: AbortSignal): Promise<Outcome>;
  /**
   * What became of one that an earlier driver had dispatched. Null where it is proven that nothing
   * of it is left, so that it may begin anew; without proof it is `unknown`.
   */
  settled(operation: Operation): Promise<Outcome | null>;
  /** Its answer is safe in the store: what was kept to settle it by need not be kept any longer. */
  forget(session: SessionId, action: ActionId): void;
}

export type OperateTerms = {
  readonly services: Pick<Services, "operations" | "rules" | "resolve" | "onProgress">;
  readonly session: SessionId;
  readonly workspace: string | null;
  /** Writes down that it may begin. */
  readonly dispatch: () => Promise<Result<void>>;
  readonly signal: AbortSignal;
};

export type Operated =
  | { readonly kind: "answered"; readonly outcome: Outcome }
  /** Its turn ended before it could begin. */
  | { readonly kind: "dropped" }
  | { readonly kind: "abandoned"; readonly fault: Fault };

/** Dispatches an operation and performs it; one that was dispatched before, if nothing of it is left. */
export async function operate(
  { action, standing }: OpenAction,
  { services, session, workspace, dispatch, signal }: OperateTerms,
): Promise<Operated> {
  const { operations, rules, resolve, onProgress } = services;
  if (workspace === null) throw new Error("a cell is linked before its workspace is known");
  if (operations === null) {
    return answered({ kind: "unknown", known: "Nothing here can say what became of it." });
  }
  const operation: Operation = {
    session,
    action,
    workspace,
    withheld: (path) => withheld(rules, path, resolve(workspace, path)),
    onOutput: (text) => onProgress({ kind: "output", action, stream: "stderr", text }),
  };
  if (standing.kind === "dispatched") {
    // What left nothing behind begins under the dispatch that it has, like what a cell never began.
    const settled = await operations.settled(operation);
    if (settled !== null) return answered(settled);
  } else {
    if (signal.aborted) return { kind: "dropped" };
    const written = await dispatch();
    if (!written.ok) return { kind: "abandoned", fault: written.fault };
  }
  onProgress({ kind: "started", action });
  return answered(await operations.perform(operation, signal));
}

function answered(outcome: Outcome): Operated {
  return { kind: "answered", outcome };
}
