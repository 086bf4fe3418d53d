import type { Core } from "@dev/host";
import {
  type ActionId,
  type CellId,
  cellId,
  never,
  ok,
  type SessionId,
  sessionId,
} from "@dev/protocol";
import type { Services } from "@dev/session";
import type { Store } from "@dev/store";
import { type Case, type CrashKind, caseText } from "./case.ts";
import type { SpoolGuard } from "./cell.ts";
import { type Chance, chance } from "./chance.ts";
import { checkEnd } from "./check.ts";
import { configOf, openHost } from "./core.ts";
import { Actor } from "./model.ts";
import { asker, attend, type Controls, type PersonTerms, say } from "./person.ts";
import { freshStore, Recorder } from "./recorder.ts";
import type { Scenario } from "./scenario.ts";
import { scenarioNamed } from "./scenarios.ts";
import { Schedule } from "./schedule.ts";
import { type Party, Steps } from "./steps.ts";
import { Yard } from "./vendor.ts";
import { type Breach, World } from "./world.ts";

/** What is made wrong on purpose, to see that it is found. */
export type Mutant = {
  readonly name: string;
  /** `forgets`: a crash of the driver takes the store back to before the first effect. */
  readonly ledger: "whole" | "forgets";
  readonly spool: SpoolGuard;
  /** Wraps what a driver is given. */
  readonly wrap: (services: Services, schedule: Schedule) => Services;
};

export const NO_MUTANT: Mutant = {
  name: "none",
  ledger: "whole",
  spool: "whole",
  wrap: (services) => services,
};

export type Ran = {
  readonly case: Case;
  readonly stepCount: number;
  readonly breaches: readonly Breach[];
  readonly trace: readonly string[];
  /** The effects that happened. */
  readonly happened: ReadonlySet<ActionId>;
  /** How many effects an agent was asked for more than once. */
  readonly askedAgainCount: number;
  /** Of how many effects the core was told that nobody can know their end. */
  readonly unknownCount: number;
};

/** Where a run's session is kept; runs may share a store, each with a session of its own. */
export type Place = { readonly store: Store; readonly session: SessionId };

/** Runs one case from its start to the end of its session, and checks every promise. */
export async function run(
  given: Case,
  mutant: Mutant = NO_MUTANT,
  place: Place | null = null,
): Promise<Ran> {
  const own = place ?? { store: await freshStore(), session: sessionId(0, new Uint8Array(10)) };
  const simulation = new Simulation(given, mutant, own);
  await simulation.run();
  const { steps, world } = simulation;
  const { breaches, happened, askedAgain, unknownCount } = world;
  return {
    case: given,
    stepCount: steps.count,
    breaches,
    trace: steps.trace,
    happened,
    askedAgainCount: askedAgain.size,
    unknownCount,
  };
}

/** A run as a person reads it: the case, what was breached, and every step. */
export function report(ran: Ran): string {
  const breaches = ran.breaches.map(({ promise, what }) => `  ${promise}: ${what}`);
  return [caseText(ran.case), ...breaches, ...ran.trace].join("\n");
}

/** How long it takes until somebody starts another driver. */
const RESTART_MS = 30;

class Simulation {
  readonly world: World;
  readonly steps: Steps;
  readonly #case: Case;
  readonly #mutant: Mutant;
  readonly #scenario: Scenario;
  readonly #chance: Chance;
  readonly #schedule: Schedule;
  readonly #yard: Yard;
  readonly #actor: Actor;
  readonly #core: Core;
  readonly #drivers: { readonly party: Party; readonly controls: Controls; isDone: boolean }[] = [];
  readonly #recorder: Recorder;
  readonly #session: SessionId;
  /** What the person has said in between. */
  readonly #said: string[] = [];
  #cellCount = 0;
  /** Drivers that are about to be started. */
  #startingCount = 0;

  constructor(given: Case, mutant: Mutant, place: Place) {
    this.#case = given;
    this.#mutant = mutant;
    this.#scenario = scenarioNamed(given.scenario);
    this.#chance = chance(given.seed);
    this.#schedule = new Schedule(this.#chance);
    this.#core = openHost(given.host);
    this.world = new World(this.#scenario.limits);
    const { world } = this;
    this.steps = new Steps(this.#schedule, given.crashes, ({ kind }) => this.#crash(kind));
    // As an agent over a local socket does, and as one that dialled out over a network does.
    const onLoss = given.seed % 2 === 0 ? "finish" : "wait";
    this.steps.note("", `the core is in its ${given.host} host`);
    this.steps.note("", `an agent that loses its link will ${onLoss}`);
    this.#yard = new Yard({
      world,
      steps: this.steps,
      schedule: this.#schedule,
      chance: this.#chance,
      onLoss,
      spool: mutant.spool,
    });
    this.#actor = new Actor(this.#scenario, world, this.steps);
    for (const [path, text] of Object.entries(this.#scenario.files)) world.files.set(path, text);
    this.#recorder = new Recorder(place.store, world, this.steps);
    this.#session = place.session;
  }

  async run(): Promise<void> {
    const { stopAt, cutAt, dieAt, steers } = this.#scenario;
    if (stopAt !== null) this.steps.watch(stopAt, () => this.#stop());
    if (cutAt !== null) this.steps.watch(cutAt, () => this.#yard.cut());
    if (dieAt !== null) this.steps.watch(dieAt, () => this.#crash("driver"));
    for (const { at, text } of steers) this.steps.watch(at, () => this.#say(text));
    this.#startDriver();
    const ended = await this.#schedule.run(() => {
      const isIdle = this.#drivers.every(({ party, isDone }) => isDone || !party.alive);
      return isIdle && this.#startingCount === 0;
    });
    if (ended !== "over") this.world.breach("stuck", `time ends, and the session is ${ended}`);
    else if (this.world.breaches.every(({ promise }) => promise !== "trouble")) {
      const place = { store: this.#recorder.store, session: this.#session };
      await checkEnd(place, this.#scenario, this.#case, this.world);
      this.#checkShown();
    }
    this.#core.close();
  }

  /** An undisturbed run comes to what its scenario is for. */
  #checkShown(): void {
    if (this.#case.crashes.length > 0) return;
    for (const mark of this.#scenario.shows) {
      const isShown = this.steps.trace.some((each) => each.includes(mark));
      if (!isShown) this.world.breach("stuck", `nothing came to: ${mark}`);
    }
  }

  #startDriver(): void {
    const party: Party = { name: `driver ${this.#drivers.length + 1}`, alive: true };
    const driver = {
      party,
      controls: { stop: null, driver: null, said: this.#said },
      isDone: false,
    };
    this.#drivers.push(driver);
    this.steps.note("", `${party.name} starts`);
    void attend(this.#terms(), party, driver.controls)
      .catch((error: unknown) => {
        const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
        this.world.breach("trouble", `${party.name} threw: ${what}`);
      })
      .then(() => {
        driver.isDone = true;
      });
  }

  #terms(): PersonTerms {
    const config = configOf(this.#scenario);
    return {
      scenario: this.#scenario,
      made: {
        id: this.#session,
        createdMs: 0,
        directory: "/workspace",
        vendor: "simulated",
        model: config.model,
        config: JSON.stringify(config),
      },
      world: this.world,
      steps: this.steps,
      recorder: this.#recorder,
      services: (driver) => this.#mutant.wrap(this.#services(driver), this.#schedule),
      isOld: (driver) => this.#isOld(driver),
      explained: explained(this.#case),
    };
  }

  #services(driver: Party): Services {
    const { steps } = this;
    return {
      store: this.#recorder.for(driver),
      core: this.#core,
      router: this.#actor.router(driver, () => !this.#isOld(driver)),
      vendor: this.#yard.vendor(driver),
      rules: this.#scenario.rules,
      asker: asker(this.#scenario, steps, driver),
      operations: null,
      onProgress: () => undefined,
      spec: async () => ok(SPEC),
      // It has no files either.
      checkpoint: async () => ok(""),
      // A simulated workspace has no links.
      resolve: (_, path) => path,
      newCellId: () => this.#newCellId(),
      now: () => this.#schedule.nowMs,
      holder: driver.name,
      browse: null,
      isAlive: () => false,
    };
  }

  #newCellId(): CellId {
    this.#cellCount += 1;
    return cellId(0, new Uint8Array(10).fill(this.#cellCount, 9));
  }

  #isOld(driver: Party): boolean {
    return this.#drivers.at(-1)?.party !== driver;
  }

  /** The person stops what the newest driver does. */
  #stop(): void {
    this.#schedule.after(() => {
      const driver = this.#drivers.at(-1);
      if (driver?.party.alive) driver.controls.stop?.abort();
    });
  }

  /** The person says something to the turn at work. */
  #say(text: string): void {
    this.#schedule.after(() => {
      this.#said.push(text);
      const newest = this.#drivers.at(-1);
      const driver = newest?.controls.driver ?? null;
      if (newest?.party.alive && driver !== null) say(this.#terms(), newest.party, driver, text);
    });
  }

  #crash(kind: CrashKind): void {
    switch (kind) {
      case "driver": {
        const driver = this.#drivers.at(-1)?.party;
        if (!driver?.alive) return;
        driver.alive = false;
        this.#yard.orphan(driver);
        void this.#restart();
        return;
      }
      case "split":
        void this.#restart();
        return;
      case "agent":
        this.#yard.newest?.crash();
        return;
      case "spool":
        this.#yard.newest?.wipe();
        return;
      case "disk":
        this.#yard.newest?.failDisk();
        return;
      case "cell":
        this.#yard.newest?.vanish();
        return;
      case "link":
        this.#yard.cut();
        return;
      case "stop":
        this.#stop();
        return;
      default:
        never(kind);
    }
  }

  async #restart(): Promise<void> {
    this.#startingCount += 1;
    if (this.#mutant.ledger === "forgets") await this.#recorder.forget();
    this.#schedule.after(() => {
      this.#startingCount -= 1;
      this.#startDriver();
    }, RESTART_MS);
  }
}

const SPEC = {
  workspace: "/workspace",
  variables: {},
  limits: {
    commandTimeoutMs: 1000,
    outputBytes: 1000,
    processCount: 1,
    openFileCount: 1,
    fileBytes: 1000,
    memoryBytes: 1000,
    diskBytes: 1000,
  },
};

/** The faults that may stop a run: it is opened again then, and goes on. */
function explained({ crashes }: Case): ReadonlySet<string> {
  const codes = new Set<string>();
  for (const { kind } of crashes) {
    if (kind === "split") codes.add("fenced");
    if (kind === "cell") codes.add("gone");
    if (kind === "disk") codes.add("io");
    if (kind !== "driver") for (const code of ["link_lost", "unavailable"]) codes.add(code);
  }
  return codes;
}
