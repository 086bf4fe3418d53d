export {
  hasPrice,
  KNOWN_PROVIDERS,
  type KnownProvider,
  knownProvider,
  type Model,
  type ModelOverrides,
  modelOf,
} from "./catalog.ts";
export { ROUTER_LIMITS, type RouterLimits } from "./limit.ts";
export * from "./router.ts";
export { type FixCall, fixCall } from "./tool/fix.ts";
export {
  OFFERED_TOOLS,
  parseCall,
  type RenderedCall,
  renderCall,
  type SpawnKind,
  type ToolName,
  toolSpecs,
} from "./tools.ts";
