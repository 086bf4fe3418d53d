import { createHash } from "node:crypto";
import type { Failure, Report } from "./report.ts";

/**
 * What a report says failed, with all that differs from run to run taken out: paths, lines, addresses,
 * ids, durations, temporary names, times, and the order of the tests. 32 hexadecimal digits.
 */
export function fingerprint(report: Report): string {
  const parts = [...new Set(report.failures.map(part))].sort();
  return createHash("sha256").update(parts.join("\n\n")).digest("hex").slice(0, 32);
}

function part({ test, kind, message, frames }: Failure): string {
  const innermost = frames[0]?.function ?? "";
  return [normalised(test), kind, innermost, normalised(message)].join("\n");
}

const varying: readonly (readonly [RegExp, string])[] = [
  [/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?/g, "<time>"],
  [/\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b/g, "<time>"],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, "<id>"],
  [/\b0x[0-9a-f]{4,}\b/gi, "<address>"],
  [/\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{12,64}\b/gi, "<id>"],
  // Milliseconds since 1970, of this half of the century.
  [/\b[12]\d{12}\b/g, "<time>"],
  [/(?<![\w.])(?:file:\/\/)?(?:\/[\w.@+~-]+){2,}(?::\d+){0,2}/g, "<path>"],
  [/(?<![\w.])[A-Z]:\\[^\s"']+/g, "<path>"],
  [/((?:[\w.@+-]+\/)*[\w@+-]+\.[A-Za-z]\w{0,4}):\d+(?::\d+)?/g, "$1"],
  [/\b(lines?|pid|port|id|thread|goroutine|process)([ =:#]{1,2})\d+\b/gi, "$1$2<n>"],
  [/\btmp[\w-]{6,}/g, "<temporary>"],
  [/\b(localhost|127\.0\.0\.1|\[::1\]):\d+\b/g, "$1"],
  [/\b\d+(?:\.\d+)?\s?(?:ns|us|µs|ms|s|secs?|seconds?|minutes?)\b/g, "<duration>"],
  [/\s+/g, " "],
];

function normalised(text: string): string {
  return varying.reduce((said, [pattern, name]) => said.replaceAll(pattern, name), text).trim();
}
