import type { HostOptions } from "@dev/host";

/** The real core in its native host. A deadline in real time would be chance that no seed decides. */
export const UNWATCHED: HostOptions = { host: "native", deadlineMs: Number.POSITIVE_INFINITY };
