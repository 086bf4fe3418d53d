export { type AgentFile, agentKinds } from "./agents.ts";
export type { Extent } from "./conversation.ts";
export { Driver } from "./driver.ts";
export type { Operation, Operations } from "./operation.ts";
export {
  globFlaw,
  type Layer,
  type LayeredRule,
  type Likeness,
  likeness,
  type Rule,
} from "./policy.ts";
export { INSTRUCTIONS_LIMIT_BYTES, prelude } from "./prelude.ts";
export type { Answer, Asker, Permit, Progress, TurnEnd } from "./progress.ts";
export { resolvePath } from "./resolve.ts";
export type { Member, MemberEnd } from "./roster.ts";
export type { Services } from "./services.ts";
export type { Prompt } from "./turns.ts";
