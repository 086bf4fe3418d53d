import { Agent, type Entry, readLog, Spool } from "@dev/cell/parts";
import type { CellId, Result } from "@dev/protocol";
import { actionId, fail, fault } from "@dev/protocol";
import type { Chance } from "./chance.ts";
import { Platter } from "./disk.ts";
import { simulatedEffects } from "./effects.ts";
import type { Schedule } from "./schedule.ts";
import type { Party, Steps } from "./steps.ts";
import type { World } from "./world.ts";

/** What is around every cell. */
export type Ground = {
  readonly world: World;
  readonly steps: Steps;
  readonly schedule: Schedule;
  readonly chance: Chance;
  /** What an agent does when its link is lost: ends when its commands have, or waits for another link. */
  readonly onLoss: "finish" | "wait";
  /** Guards of the spool that are switched off. */
  readonly spool: SpoolGuard;
};

export type SpoolGuard =
  | "whole"
  /** Every agent finds an empty disk: it makes a spool of another identity. */
  | "forgets"
  /** The same, but the new spool says that it is the old one. */
  | "impostor"
  /** The disk says that it has synced, and has not. */
  | "unsynced";

/** A cell: a disk, and the agent that lives on it now, if any. It knows nothing of drivers. */
export class Cell {
  readonly id: CellId;
  isGone = false;
  #generation = 0;
  #life: Life | null = null;
  readonly #ground: Ground;
  readonly #platter: Platter;
  /** The identity of the spool that is on the disk. */
  #spool = "";

  constructor(id: CellId, ground: Ground) {
    this.id = id;
    this.#ground = ground;
    this.#platter = new Platter(ground.spool === "unsynced");
  }

  /** An agent to be linked to: the one that waits for a link, or the next when the one before has ended. */
  async agent(): Promise<Result<Life>> {
    if (this.#ground.onLoss === "wait") await this.#life?.opened;
    const life = this.#life;
    const waits = this.#ground.onLoss === "wait" && life !== null && !life.isEnding;
    return waits && life.agent !== null ? { ok: true, value: life } : this.#start();
  }

  async #start(): Promise<Result<Life>> {
    while (this.#life !== null) await this.#life.ended;
    if (this.isGone) return fail(fault("gone", "there is no such cell", this.id));
    this.#generation += 1;
    const { world, steps, spool } = this.#ground;
    const generation = this.#generation;
    if (generation > 1 && (spool === "forgets" || spool === "impostor")) this.#lose();
    const party: Party = { name: `agent ${this.id.at(-1)}.${generation}`, alive: true };
    const life = newLife(party, generation, () => {
      this.#life = null;
      if (this.#platter.hasFailed) this.#giveUp();
    });
    this.#life = life;
    const identity = spool === "impostor" ? `spool of ${this.id}` : `${this.id} ${generation}`;
    const owner = { cell: this.id, generation, identity };
    // Whoever waits for an agent that dies as it starts is told so.
    const opened = Promise.race([
      openAgent(this.#platter, owner, { world, steps, party }),
      life.ended,
    ]);
    life.opened = opened;
    const agent = await opened;
    if (agent === undefined || !party.alive)
      return fail(fault("unavailable", "the agent died", this.id));
    if (!agent.ok) {
      life.end();
      return agent;
    }
    life.agent = agent.value;
    this.#spool = agent.value.identity;
    return { ok: true, value: life };
  }

  /** The agent's process dies; its disk may lose what was not synced. */
  crash(): void {
    const life = this.#life;
    if (life === null) return;
    this.#platter.crash(this.#ground.chance);
    this.#giveUp();
    life.end();
  }

  /** The agent dies and the disk is lost. */
  wipe(): void {
    this.crash();
    this.#lose();
  }

  failDisk(): void {
    this.#platter.fail();
  }

  vanish(): void {
    this.isGone = true;
    this.wipe();
  }

  /** What the disk knows the beginning of alone, nobody will know the end of. */
  #giveUp(): void {
    for (const entry of unfinished(this.#platter.bytes)) {
      if (entry.evidence.kind !== "file") this.#ground.world.unknowable.add(actionId(entry.id));
    }
  }

  #lose(): void {
    this.#ground.world.lostSpools.add(this.#spool);
    this.#platter.lose();
  }
}

/** One agent, from its start to its end. */
export type Life = {
  readonly party: Party;
  readonly generation: number;
  /** Null while it starts. */
  agent: Agent | null;
  opened: Promise<unknown>;
  /** It takes nothing new. */
  isEnding: boolean;
  readonly ended: Promise<undefined>;
  /** Its process is no more: it does nothing from now on. */
  readonly end: () => void;
  /** Its end of the link, if it has one: `run` when it has ended. */
  onEnd: () => void;
};

function newLife(party: Party, generation: number, onEnd: () => void): Life {
  let resolve: (value: undefined) => void = () => undefined;
  const ended = new Promise<undefined>((settle) => {
    resolve = settle;
  });
  const life: Life = {
    party,
    generation,
    agent: null,
    opened: Promise.resolve(),
    isEnding: false,
    ended,
    onEnd: () => undefined,
    end: () => {
      if (!party.alive) return;
      party.alive = false;
      onEnd();
      life.onEnd();
      resolve(undefined);
    },
  };
  return life;
}

async function openAgent(
  platter: Platter,
  owner: Parameters<typeof Spool.open>[1],
  { world, steps, party }: { world: World; steps: Steps; party: Party },
): Promise<Result<Agent>> {
  const spool = await Spool.open(platter.open(steps, party), owner);
  if (!spool.ok) return spool;
  const clock = {
    wallMs: () => 0,
    monotonicMs: () => 0,
    sleep: (ms: number) => steps.pass(party, "sleeps", ms),
  };
  return Agent.open(spool.value, simulatedEffects(world, steps, party), clock);
}

function unfinished(bytes: Uint8Array): readonly Extract<Entry, { kind: "started" }>[] {
  const log = readLog(bytes);
  if (log.kind !== "log") return [];
  const started = new Map<number, Extract<Entry, { kind: "started" }>>();
  for (const entry of log.entries) {
    if (entry.kind === "started") started.set(entry.id, entry);
    else if (entry.kind !== "acknowledged") started.delete(entry.id);
  }
  return [...started.values()];
}
