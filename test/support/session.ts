import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DEFAULT_LIMITS, type Limits } from "@dev/core";
import { openCore } from "@dev/host";
import { OFFERED_TOOLS, openRouter, ROUTER_LIMITS, toolSpecs } from "@dev/model";
import { type Script, type Scripted, startScripted } from "@dev/model/scripted";
import type { Action, Result } from "@dev/protocol";
import { cellId, fail, fault, ok, type SessionId, sessionId } from "@dev/protocol";
import { type Answer, Driver, type Progress, type Prompt, type Services } from "@dev/session";
import { type LedgerEntry, openSqlite, type Store } from "@dev/store";

/** A session in this process: a real store and router, a scripted model, and no cell. */
export type Room = {
  readonly model: Scripted;
  readonly store: Store;
  /** What whoever watches was told, in order. */
  readonly told: Progress[];
  /** The questions that a person was asked, and how each of these waits ended. */
  readonly asked: Asked[];
  /** Makes the session the first time, and opens it afterwards; `changed` differs from the usual. */
  open(changed?: Partial<Services>): Promise<Driver>;
  ledger(): Promise<readonly LedgerEntry[]>;
  close(): Promise<void>;
};

export type Asked = {
  readonly action: Action;
  answer(given: Answer): void;
  /** Null: it was ended, since nobody waits for an answer any more. */
  readonly ended: Promise<Answer | null>;
};

export const NOBODY_STOPS: AbortSignal = new AbortController().signal;

export function prompt(text: string): Prompt {
  return { text, images: [], mode: null, firstMode: "full" };
}

export function value<T>(result: Result<T>): T {
  if (!result.ok) throw new Error(`${result.fault.code}: ${result.fault.message}`);
  return result.value;
}

export async function openRoom(script: Script, limits: Limits = DEFAULT_LIMITS): Promise<Room> {
  const root = mkdtempSync(join(tmpdir(), "dev-room-"));
  const model = await startScripted(script);
  const store = value(await openSqlite(join(root, "store.db")));
  const core = openCore({ host: "native" });
  const providers = { scripted: { wire: "openai-chat", baseUrl: model.url, key: null } } as const;
  const router = openRouter(providers, {
    sleep: () => Promise.resolve(),
    random: () => 0,
    limits: ROUTER_LIMITS,
  });
  const told: Progress[] = [];
  const asked: Asked[] = [];
  let clock = 1;
  let driverCount = 0;
  const now = (): number => clock++;
  const servicesOf = (changed: Partial<Services>): Services => ({
    store,
    core,
    router,
    vendor: NO_CELLS,
    rules: [],
    asker: askerOf(asked),
    operations: null,
    onProgress: (progress) => told.push(progress),
    spec: () => Promise.resolve(NO_CELL),
    checkpoint: () => Promise.resolve(ok("")),
    resolve: (_, path) => path,
    newCellId: () => cellId(now(), new Uint8Array(10)),
    now,
    holder: `driver ${++driverCount}`,
    browse: null,
    isAlive: () => false,
    ...changed,
  });
  const id = sessionId(1, new Uint8Array(10));
  return {
    model,
    store,
    told,
    asked,
    open: async (changed = {}) => {
      const services = servicesOf(changed);
      const isMade = (await store.session(id)).ok;
      return value(
        isMade
          ? await Driver.open(services, id)
          : await Driver.begin(services, made(id, root, limits)),
      );
    },
    ledger: async () => value(await store.ledger(id)),
    close: async () => {
      router.close();
      core.close();
      store.close();
      await model.close();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

const NO_CELL: Result<never> = fail(fault("unavailable", "there are no cells here"));
const NO_CELLS: Services["vendor"] = {
  name: "none",
  create: () => Promise.resolve(NO_CELL),
  get: () => Promise.resolve(NO_CELL),
  hibernate: () => Promise.resolve(NO_CELL),
  delete: () => Promise.resolve(NO_CELL),
};

function made(id: SessionId, directory: string, limits: Limits) {
  const config = {
    model: "scripted/test",
    effort: "default",
    prelude: "You are Dev.",
    tools: toolSpecs(OFFERED_TOOLS),
    limits,
    windowTokens: 0,
    images: false,
    agents: [],
  };
  const { model } = config;
  return { id, createdMs: 1, directory, vendor: "none", model, config: JSON.stringify(config) };
}

function askerOf(asked: Asked[]): Services["asker"] {
  return {
    permit: () => Promise.resolve({ kind: "once" }),
    answer: (action, signal) => {
      let answer: (given: Answer | null) => void = () => {};
      const ended = new Promise<Answer | null>((resolve) => {
        answer = resolve;
      });
      signal.addEventListener("abort", () => answer(null), { once: true });
      asked.push({ action, answer, ended });
      return ended;
    },
  };
}
