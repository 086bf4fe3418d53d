import type { Report } from "../report/report.ts";
import type { Echo } from "../search/echo.ts";
import type { Source } from "../syntax/source.ts";
import type { Coverage } from "./coverage.ts";

/** All that is known when the ranking is made. */
export type Clues = {
  readonly report: Report;
  /** Null where none could be taken. */
  readonly coverage: Coverage | null;
  readonly echoes: readonly Echo[];
  /** The files that may hold the fault, and those of the tests. */
  readonly sources: readonly Source[];
  /** When a file was last changed in git, in Unix milliseconds; a file may be missing. */
  readonly changedMs: ReadonlyMap<string, number>;
};
