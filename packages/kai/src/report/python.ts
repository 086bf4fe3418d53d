import { messageOf } from "./failure.ts";

/** What a traceback says after its frames: the last exception, with its name. */
export function pythonMessage(lines: readonly string[]): string {
  const from = lines.findLastIndex((line) => /^\s*File ".*", line \d+/.test(line));
  const after = lines.slice(from + 1);
  const named = after.findIndex((line) => /^\S/.test(line) && !/^[~^\s]+$/.test(line));
  return named < 0 ? "" : messageOf(after.slice(named), (line) => /^(?:={9,}|-{9,})$/.test(line));
}
