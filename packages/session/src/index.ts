export { Driver, type Prompt } from "./driver.ts";
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
export type { Services } from "./services.ts";
