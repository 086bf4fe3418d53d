export { CHECKPOINT_LIMIT } from "./checkpoint.ts";
export * from "./sqlite.ts";
export * from "./store.ts";
