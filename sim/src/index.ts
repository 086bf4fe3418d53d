export {
  type Case,
  CRASH_KINDS,
  type Crash,
  type CrashKind,
  caseText,
  parseCase,
  parseHost,
} from "./case.ts";
export { HOST_NAMES, type HostName, hostOf } from "./core.ts";
export { type Mutant, NO_MUTANT, type Ran, report, run } from "./run.ts";
export type { Part, Scenario } from "./scenario.ts";
export { SCENARIOS } from "./scenarios.ts";
export { type Sweep, type Swept, sweep } from "./sweep.ts";
export type { Breach, Promised } from "./world.ts";
