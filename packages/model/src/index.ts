export { ROUTER_LIMITS, type RouterLimits } from "./limit.ts";
export * from "./router.ts";
export {
  OFFERED_TOOLS,
  parseCall,
  type RenderedCall,
  renderCall,
  type ToolName,
  toolSpecs,
} from "./tools.ts";
