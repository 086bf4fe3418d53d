export * from "./sqlite.ts";
export * from "./store.ts";
