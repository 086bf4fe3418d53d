export {
  CALL_DEADLINE_MS,
  type Core,
  type HostOptions,
  openCore,
  type Session,
} from "./core.ts";
