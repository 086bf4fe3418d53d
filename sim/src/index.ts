export { type Case, CRASH_KINDS, type Crash, type CrashKind, caseText, parseCase } from "./case.ts";
export { type Mutant, NO_MUTANT, type Ran, report, run } from "./run.ts";
export { SCENARIOS, type Scenario } from "./scenario.ts";
export { type Sweep, type Swept, sweep } from "./sweep.ts";
export type { Breach, Promised } from "./world.ts";
