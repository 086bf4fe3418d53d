import type { CellLimits } from "./vendor.ts";

/** What a cell gets where nobody said otherwise. */
export const DEFAULT_CELL_LIMITS: CellLimits = {
  commandTimeoutMs: 10 * 60 * 1000,
  outputBytes: 32 * 1024,
  processCount: 512,
  openFileCount: 4096,
  fileBytes: 2 * 1024 * 1024 * 1024,
  memoryBytes: 8 * 1024 * 1024 * 1024,
  diskBytes: 16 * 1024 * 1024 * 1024,
};
