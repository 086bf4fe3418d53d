export type { Step } from "./action.ts";
export { type AgentKind, type Config, configFlaw, DEFAULT_LIMITS, type Limits } from "./config.ts";
export { actionJson } from "./json.ts";
export { restore, SNAPSHOT_VERSION, snapshot, snapshotParts } from "./snapshot.ts";
export {
  type Agent,
  create,
  type Phase,
  type Slot,
  type State,
  type Summary,
  type Turn,
  UNHEARD_LIMIT,
  type Unheard,
} from "./state.ts";
export { step } from "./step.ts";
