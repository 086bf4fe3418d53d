/** Figures as people read them, with their units. */

/** `1 file`, `2,000 files`. */
export function countText(count: number, one: string, many: string = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

/** A whole number with its thousands apart. */
export function grouped(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** `40 ms`, `1.3 s`, `12 s`, `3 min 5 s`, `2 h 10 min`. */
export function timeText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** `512 B`, `12 KB`, `3.4 MB`: powers of 1000. */
export function sizeText(sizeBytes: number): string {
  if (sizeBytes < 1000) return `${sizeBytes} B`;
  const units = ["KB", "MB", "GB", "TB"];
  let size = sizeBytes / 1000;
  let unit = 0;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${size < 9.95 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** `$1.20`, `$0.034`, `$0.0007`: from millionths of a US dollar. */
export function costText(microUsd: number): string {
  const dollars = microUsd / 1_000_000;
  if (dollars < 0.0001) return "under $0.0001";
  return `$${dollars.toFixed(dollars >= 1 ? 2 : dollars >= 0.01 ? 3 : 4)}`;
}

/** Local time to the minute, in the order in which it sorts. */
export function momentText(atMs: number): string {
  const at = new Date(atMs);
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}`;
}
