/*
 * The agent without the process around it: for whoever runs it on another disk, other effects and
 * another clock than a machine's own, as the simulator does.
 */
export { Agent, type Effects, type OnText, type Plan, type Recovery } from "./agent.ts";
export type { Clock } from "./clock.ts";
export type { Disk } from "./disk.ts";
export { type Entry, type Evidence, readLog } from "./log.ts";
export { Spool } from "./spool.ts";
