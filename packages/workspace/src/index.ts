export * from "./apply.ts";
export * from "./change.ts";
export * from "./diff.ts";
export * from "./manifest.ts";
export * from "./node.ts";
export * from "./take.ts";
