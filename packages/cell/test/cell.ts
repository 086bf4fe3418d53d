import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import {
  type Action,
  actionId,
  agentId,
  type CellId,
  cellId,
  type EffectOp,
  type ExecOp,
  type Outcome,
  type Result,
  turnId,
} from "@dev/protocol";
import { rolldown } from "rolldown";
import { onTestFinished } from "vitest";
import type { Clock } from "../src/agent/clock.ts";
import { DEFAULT_CELL_LIMITS } from "../src/limits.ts";
import { connectLink } from "../src/link.ts";
import type { CellLimits, Link } from "../src/vendor.ts";

export const realClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const timer = setTimeout(resolve, ms);
      signal?.addEventListener("abort", () => {
        clearTimeout(timer);
        resolve();
      });
    }),
};

export const rgPath: string = createRequire(import.meta.url).resolve(
  `@vscode/ripgrep-${process.platform}-${process.arch}/bin/rg`,
);

export const ptyAddon: string = createRequire(import.meta.url).resolve(
  `@lydell/node-pty-${process.platform}-${process.arch}/pty.node`,
);

export const IDLE: AbortSignal = new AbortController().signal;

/** A directory that is removed when the test ends. */
export async function scratch(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "dev-cell-"));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

export function action(id: number, op: EffectOp): Action {
  return { id: actionId(id), agent: agentId(0), turn: turnId(1), op };
}

export function exec(...argv: readonly string[]): ExecOp {
  return {
    kind: "exec",
    argv,
    cwd: ".",
    env: [],
    stdin: "",
    timeoutMs: 0,
    background: false,
  };
}

export function sh(script: string): ExecOp {
  return exec("sh", "-c", script);
}

/** Builds the agent as it is shipped: one file. Gives its path, and what went into it. */
export async function bundleAgent(
  directory: string,
): Promise<{ readonly path: string; readonly modules: readonly string[] }> {
  const bundle = await rolldown({
    input: new URL("../src/agent/main.ts", import.meta.url).pathname,
    platform: "node",
    resolve: { conditionNames: ["source", "import", "node"] },
  });
  const path = join(directory, "agent.mjs");
  const { output } = await bundle.write({ file: path, format: "esm", codeSplitting: false });
  await bundle.close();
  return {
    path,
    modules: output.flatMap((chunk) => ("moduleIds" in chunk ? chunk.moduleIds : [])),
  };
}

export type Running = {
  readonly link: Link;
  readonly child: ChildProcess;
  readonly stream: Duplex;
  readonly exited: Promise<void>;
  perform(id: number, op: EffectOp, signal?: AbortSignal): Promise<Outcome>;
};

/** A cell with no boundary at all: a workspace, a spool, and the agents that come and go on them. */
export class TestCell {
  readonly id: CellId = cellId(Date.now(), crypto.getRandomValues(new Uint8Array(10)));
  readonly workspace: string;
  readonly spool: string;
  readonly #bundle: string;
  #generation = 0;

  private constructor(directory: string, bundle: string) {
    this.workspace = join(directory, "workspace");
    this.spool = join(directory, "spool");
    this.#bundle = bundle;
  }

  static async make(bundle: string): Promise<TestCell> {
    const cell = new TestCell(await scratch(), bundle);
    await mkdir(cell.workspace);
    return cell;
  }

  /** A new agent, which is killed when the test ends. */
  spawn(): { child: ChildProcess; stream: Duplex; exited: Promise<void> } {
    const child = spawn(process.execPath, [this.#bundle], {
      stdio: ["ignore", "inherit", "inherit", "pipe"],
    });
    const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    onTestFinished(async () => {
      child.kill("SIGKILL");
      await exited;
    });
    return { child, stream: child.stdio[3] as Duplex, exited };
  }

  async start(limits: Partial<CellLimits> = {}): Promise<Running> {
    const { child, stream, exited } = this.spawn();
    const link = await this.connect(stream, limits);
    if (!link.ok) throw new Error(JSON.stringify(link.fault));
    const { value } = link;
    return {
      link: value,
      child,
      stream,
      exited,
      perform: async (id, op, signal = IDLE) => {
        const event = await value.perform(action(id, op), () => {}, signal);
        if (!event.ok) throw new Error(`${event.fault.code}: ${event.fault.message}`);
        return event.value.outcome;
      },
    };
  }

  connect(
    stream: Duplex,
    limits: Partial<CellLimits> = {},
    generation: number = ++this.#generation,
    signal: AbortSignal = IDLE,
  ): Promise<Result<Link>> {
    const opening = {
      cell: this.id,
      generation,
      workspace: this.workspace,
      spool: this.spool,
      rg: rgPath,
      pty: ptyAddon,
      limits: { ...DEFAULT_CELL_LIMITS, ...limits },
      variables: [],
      hasNetwork: false,
      certificates: "",
    };
    return connectLink(stream, opening, "none", {}, signal);
  }
}
