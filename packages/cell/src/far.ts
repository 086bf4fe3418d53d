/*
 * Links over WebSocket, apart from the rest: what has its cells on its own machine does not load them.
 */
export type { Clock } from "./agent/clock.ts";
export {
  CONNECT_PATH,
  type Dialler,
  type DialOptions,
  dialler,
  REDIAL_LIMIT_MS,
} from "./dial.ts";
export {
  type CellClaims,
  mintToken,
  type SecretOf,
  TOKEN_LIFE_MS,
  type TokenClaims,
  type VendorClaims,
} from "./token.ts";
export { type CellUpgrades, cellUpgrades, type UpgradeOptions, VENDOR_NAME } from "./upgrade.ts";
export { type Description, OWN_WORKSPACE, type VendorCall } from "./vendors/call.ts";
export { type Outpost, type OutpostOptions, outpost } from "./vendors/outpost.ts";
export type { Callers } from "./vendors/pods.ts";
export { type RemoteOptions, type RemoteVendor, remoteVendor } from "./vendors/remote.ts";
export { collectWorkspace, fillWorkspace } from "./workspace.ts";
