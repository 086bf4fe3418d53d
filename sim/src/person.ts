import type { Fault, Result } from "@dev/protocol";
import { type Asker, Driver, type Services } from "@dev/session";
import type { NewSession } from "@dev/store";
import type { Recorder } from "./recorder.ts";
import type { Scenario } from "./scenario.ts";
import type { Party, Steps } from "./steps.ts";
import type { World } from "./world.ts";

/** How often one driver is started again on a session that a fault has stopped. */
const TRY_LIMIT = 12;
/** How long a person takes to answer. */
const THOUGHT_MS = 500;

export type PersonTerms = {
  readonly scenario: Scenario;
  /** The session, as it is made when there is none yet. */
  readonly made: NewSession;
  readonly world: World;
  readonly steps: Steps;
  readonly recorder: Recorder;
  readonly services: (driver: Party) => Services;
  /** Whether a newer driver has been started than this one. */
  readonly isOld: (driver: Party) => boolean;
  /** Faults that what goes wrong in this run explains. */
  readonly explained: ReadonlySet<string>;
};

/**
 * A person at a driver's process: gives the prompts that the session has not accepted yet, one after
 * another, and opens it again when a fault stops it. To whoever is asked, see `scenario.permits`.
 */
export async function attend(terms: PersonTerms, driver: Party, controls: Controls): Promise<void> {
  const { steps, world } = terms;
  for (let tried = 1; tried <= TRY_LIMIT; tried++) {
    const opened = await openDriver(terms, driver);
    if (!opened.ok) {
      meet(terms, opened.fault);
      if (terms.isOld(driver)) return;
      await steps.pass(driver, "tries again");
      continue;
    }
    const prompt = await nextPrompt(terms);
    // Without a prompt too: what a stopped turn left behind gets its end in the ledger.
    const { mode } = terms.scenario;
    const given = prompt === null ? null : { text: prompt, images: [], mode, firstMode: mode };
    const stop = new AbortController();
    controls.stop = stop;
    controls.driver = opened.value;
    for (const text of controls.said) say(terms, driver, opened.value, text);
    const ran = await opened.value.run(given, stop.signal);
    controls.stop = null;
    controls.driver = null;
    steps.note("", `${driver.name}: ran: ${ran.ok ? ran.value.outcome : ran.fault.message}`);
    await opened.value.close();
    if (terms.isOld(driver) || (ran.ok && (await nextPrompt(terms)) === null)) return;
    // Who stops before the prompt is taken is told that there is nothing to do.
    const isStopped = !ran.ok && ran.fault.code === "usage" && stop.signal.aborted;
    if (!ran.ok && !isStopped) meet(terms, ran.fault);
    await steps.pass(driver, "goes on");
  }
  world.breach("stuck", `the session is not at its end after ${TRY_LIMIT} tries`);
}

/** A fault that nothing in this run explains is a breach. */
function meet({ explained, world }: PersonTerms, { code, message }: Fault): void {
  if (!explained.has(code)) world.breach("trouble", `${code}: ${message}`);
}

/** What a person holds in hand. */
export type Controls = {
  stop: AbortController | null;
  driver: Driver | null;
  /** What the person has said in between, to whichever driver. */
  readonly said: readonly string[];
};

/** Says something to the turn at work, unless the session has taken it up already. */
export function say(
  { steps, world }: PersonTerms,
  party: Party,
  driver: Driver,
  text: string,
): void {
  if (world.words.has(text) || !steps.point(party, `is told: ${text}`)) return;
  driver
    .steer(text)
    .then((taken) => {
      if (taken.ok && !world.words.has(text)) world.breach("said", `nobody took up: ${text}`);
    })
    .catch((error: unknown) => world.breach("trouble", `steer threw: ${error}`));
}

/** The first prompt that the session has not accepted. */
async function nextPrompt({ recorder, made, scenario }: PersonTerms): Promise<string | null> {
  const journal = await recorder.store.journal(made.id, 0);
  const events = journal.ok ? journal.value : [];
  const accepted = events.filter(({ event }) => event.kind === "turn").length;
  return scenario.prompts[accepted] ?? null;
}

async function openDriver(terms: PersonTerms, driver: Party): Promise<Result<Driver>> {
  const { made, services, recorder } = terms;
  const known = await recorder.store.session(made.id);
  if (known.ok) return Driver.open(services(driver), made.id);
  return Driver.begin(services(driver), made);
}

export function asker(scenario: Scenario, steps: Steps, driver: Party): Asker {
  return {
    permit: async ({ id }) => {
      await steps.pass(driver, `is asked to permit ${id}`, THOUGHT_MS);
      return scenario.permits === "no" ? { kind: "no", message: "" } : { kind: "once" };
    },
    answer: async ({ id }) => {
      await steps.pass(driver, `is asked question ${id}`, THOUGHT_MS);
      return { text: "", choices: ["b"] };
    },
  };
}
