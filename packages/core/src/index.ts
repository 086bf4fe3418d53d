export { type Config, DEFAULT_LIMITS, type Limits } from "./config.ts";
export { restore, SNAPSHOT_VERSION, snapshot } from "./snapshot.ts";
export { type Agent, create, type Phase, type Slot, type State, type Turn } from "./state.ts";
export { type Step, step } from "./step.ts";
