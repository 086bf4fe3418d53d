export { type Applied, type ApplyPlace, applyChanges } from "./apply.ts";
export { changes, type TreeChange } from "./change.ts";
export * from "./diff.ts";
export * from "./manifest.ts";
export * from "./node.ts";
export * from "./take.ts";
