export * from "./limits.ts";
export * from "./link.ts";
export * from "./probe.ts";
export * from "./vendor.ts";
export * from "./vendors/registry.ts";
export type { Opening } from "./wire.ts";
