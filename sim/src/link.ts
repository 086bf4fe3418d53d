import type { ChannelKind, Link, OnOutput } from "@dev/cell";
import type { Agent } from "@dev/cell/parts";
import type { Action, ActionId, CellId, EffectEvent, Fault, Result } from "@dev/protocol";
import { decodeEvent, fail, fault, ok } from "@dev/protocol";
import type { Ground, Life } from "./cell.ts";
import type { Party } from "./steps.ts";
import { Wire } from "./wire.ts";

type Answer = (result: Result<EffectEvent>) => void;

/**
 * A link between a driver and an agent: messages that take time, in order both ways. What was sent
 * before its sender died arrives; what was on its way when the link was cut does not.
 */
export class SimulatedLink implements Link {
  readonly boundary = "cell";
  readonly cell: CellId;
  readonly generation: number;
  readonly spool: string;
  readonly #ground: Ground;
  readonly #driver: Party;
  readonly #life: Life;
  readonly #agent: Agent;
  readonly #toAgent: Wire;
  readonly #toDriver: Wire;
  readonly #pending = new Set<Answer>();
  readonly #closing: (() => void)[] = [];
  #isOpen = true;

  constructor(ground: Ground, cell: CellId, driver: Party, life: Life, agent: Agent) {
    this.cell = cell;
    this.generation = life.generation;
    this.spool = agent.identity;
    this.#ground = ground;
    this.#driver = driver;
    this.#life = life;
    this.#agent = agent;
    this.#toAgent = new Wire(ground.schedule);
    this.#toDriver = new Wire(ground.schedule);
    life.onEnd = () => this.#toDriver.send(() => this.#lose("the agent ended"));
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** The link breaks: each end finds out in its own time. */
  cut(): void {
    this.#toAgent.cut();
    this.#toDriver.cut();
    this.#ground.schedule.after(() => this.#lose("it broke"));
    this.#ground.schedule.after(() => this.#hangUp());
  }

  /** The driver's process has died: the agent hears what it had sent, and then that. */
  orphan(): void {
    this.#isOpen = false;
    this.#toAgent.send(() => this.#hangUp());
  }

  perform(action: Action, onOutput: OnOutput, signal: AbortSignal): Promise<Result<EffectEvent>> {
    const { steps } = this.#ground;
    return new Promise((resolve) => {
      if (!this.#isOpen) return resolve(fail(lost("it is lost")));
      const answer: Answer = (result) => {
        this.#pending.delete(answer);
        resolve(result);
      };
      this.#pending.add(answer);
      if (!steps.point(this.#driver, `asks the cell for ${action.id}`)) return;
      this.#toAgent.send(() => this.#serve(action, onOutput, answer));
      if (!steps.point(this.#driver, `has asked the cell for ${action.id}`)) return;
      const cancel = (): void => this.#tell(`cancels ${action.id}`, () => this.#cancel(action.id));
      if (signal.aborted) cancel();
      signal.addEventListener("abort", cancel, { once: true });
    });
  }

  acknowledge(ids: readonly ActionId[]): void {
    this.#tell(`acknowledges ${ids}`, () => {
      this.#watched("acknowledge", this.#agent.acknowledge(ids));
    });
  }

  /** The simulator has effects only. */
  open(kind: ChannelKind): Promise<Result<never>> {
    return Promise.resolve(fail(fault("unsupported", "no channels here", kind)));
  }

  collect(): Promise<Result<undefined>> {
    return Promise.resolve(ok(undefined));
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      if (!this.#isOpen) return resolve();
      this.#closing.push(resolve);
      this.#tell("closes the link", () => {
        for (const id of this.#ground.world.dispatched.keys()) this.#stop(id);
        this.#life.isEnding = true;
        this.#watched("close", this.#agent.close().then(this.#life.end));
      });
    });
  }

  #serve(action: Action, onOutput: OnOutput, answer: Answer): void {
    const { steps, world } = this.#ground;
    const { party } = this.#life;
    if (!steps.point(party, `hears of ${action.id}`)) return;
    world.ask(action);
    const told: OnOutput = (stream, text) => {
      this.#toDriver.send(() => {
        if (this.#driver.alive && this.#isOpen) onOutput(stream, text);
      });
    };
    const performed = this.#agent.perform(action, told).then((result) => {
      if (!steps.point(party, `answers ${action.id}`)) return;
      this.#toDriver.send(() => {
        if (!steps.point(this.#driver, `hears the answer to ${action.id}`)) return;
        answer(result.ok ? readEvent(result.value) : result);
      });
      steps.point(party, `has answered ${action.id}`);
    });
    this.#watched("perform", performed);
  }

  #cancel(id: ActionId): void {
    this.#stop(id);
    this.#agent.cancel(id);
  }

  #stop(id: ActionId): void {
    if (!this.#ground.world.answered.has(id)) this.#ground.world.stopped.add(id);
  }

  #tell(what: string, hear: () => void): void {
    const { steps } = this.#ground;
    if (!this.#isOpen || !steps.point(this.#driver, what)) return;
    this.#toAgent.send(() => {
      if (steps.point(this.#life.party, `hears: ${what}`)) hear();
    });
  }

  #hangUp(): void {
    if (this.#ground.onLoss === "wait" || !this.#life.party.alive) return;
    this.#watched("finish", this.#agent.finish().then(this.#life.end));
  }

  #lose(why: string): void {
    if (!this.#driver.alive || !this.#isOpen) return;
    this.#isOpen = false;
    for (const answer of [...this.#pending]) answer(fail(lost(why)));
    for (const resolve of this.#closing) resolve();
  }

  /** An agent that throws is a bug. */
  #watched(what: string, work: Promise<unknown>): void {
    work.catch((error: unknown) => {
      this.#ground.world.breach("trouble", `the agent threw in ${what}: ${error}`);
    });
  }
}

function readEvent(bytes: Uint8Array): Result<EffectEvent> {
  const event = decodeEvent(bytes);
  if (!event.ok) return event;
  if (!("outcome" in event.value)) throw new Error(`an agent answers with ${event.value.kind}`);
  return ok(event.value);
}

function lost(why: string): Fault {
  return fault("link_lost", `the link to the cell: ${why}`);
}
