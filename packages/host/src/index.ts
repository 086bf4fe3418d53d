export {
  CALL_DEADLINE_MS,
  type Core,
  type HostOptions,
  openCore,
  type Session,
} from "./core.ts";
export { FUEL_PER_MS, LIVE_LIMIT } from "./wasm.ts";
