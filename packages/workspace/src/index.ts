export { type Applied, type ApplyPlace, applyChanges } from "./apply.ts";
export type { Holder } from "./aside.ts";
export { directoryBlobs } from "./blob-directory.ts";
export * from "./blobs.ts";
export { changes, type TreeChange } from "./change.ts";
export { compareSnapshots, snapshotDiff } from "./compare.ts";
export { unifiedDiff } from "./diff.ts";
export * from "./manifest.ts";
export * from "./node.ts";
export { type ObjectSource, Objects } from "./objects.ts";
export { type Received, receiveTree } from "./receive.ts";
export { type Restored, type RestoreOptions, restoreSnapshot } from "./restore.ts";
export type { ScanOptions, ScanProgress } from "./scan.ts";
export { type Sent, sendTree } from "./send.ts";
export {
  parseSnapshotId,
  type SnapshotId,
  type SnapshotOptions,
  type TakenSnapshot,
  takeSnapshot,
} from "./snapshot.ts";
export { StatCache } from "./stat-cache.ts";
export { GRACE_MS, type SweepOptions, type Swept, sweep } from "./sweep.ts";
export * from "./take.ts";
