export {
  CHANNEL_CHUNK_BYTES,
  CHANNEL_LIMIT,
  CHANNEL_OPEN_LIMIT_MS,
  CHANNEL_PAYLOAD_LIMIT_BYTES,
  CHANNEL_QUEUE_LIMIT_BYTES,
  CHANNEL_WINDOW_BYTES,
  type ChannelKind,
  type OpenChannel,
} from "./channel.ts";
export { Egress } from "./egress/egress.ts";
export type { EgressSeams } from "./egress/ground.ts";
export { EGRESS_LIMITS } from "./egress/limits.ts";
export type { EgressRecord } from "./egress/record.ts";
export type { NetworkRules } from "./egress/rule.ts";
export { readCredential } from "./egress/secret.ts";
export { type Jail, type Jailed, openJail } from "./jail.ts";
export * from "./limits.ts";
export * from "./link.ts";
export * from "./probe.ts";
export { openPty, type Pty, type PtyEnd, type PtyOpening } from "./pty.ts";
export * from "./vendor.ts";
export { credentialsOf, passedOn } from "./vendors/local.ts";
export * from "./vendors/registry.ts";
export type { Opening } from "./wire.ts";
