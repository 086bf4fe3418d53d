import { readFileSync } from "node:fs";
import { hostname } from "node:os";

/** Names this process, in a way that a later process of the same number does not share. */
export function holderName(): string {
  return `${hostname()}/${process.pid}/${startOf(process.pid)}`;
}

/** Whether the process of that name still runs. One on another machine is taken to. */
export function isHolderAlive(holder: string): boolean {
  const [host, pid = "", start] = holder.split("/");
  if (host !== hostname()) return true;
  const now = startOf(Number(pid));
  if (now !== "") return now === start;
  try {
    process.kill(Number(pid), 0);
    return start === "";
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}

/** When a process started, in the kernel's ticks since boot; empty where that cannot be read. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // A program's name may have spaces and brackets: the fields are counted from its end.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // A zombie still has a number, and does nothing any more.
    return fields[0] === "Z" ? "" : (fields[19] ?? "");
  } catch (error) {
    if (error instanceof Error && "code" in error) return "";
    throw error;
  }
}
