import { Transform } from "node:stream";

/** What stands where a secret was: as long, so that lengths that were announced stay true. */
const BLOT = "*".charCodeAt(0);

/** Text without the secrets; `found` is told when there was one. */
export function redactText(text: string, needles: readonly Buffer[], found: () => void): string {
  const bytes = Buffer.from(text, "latin1");
  if (blot(bytes, needles)) found();
  return bytes.toString("latin1");
}

/**
 * Blots secrets out of a stream, wherever its chunks end. It holds back only what may be the beginning
 * of one, so that an answer that comes piece by piece still does.
 */
export function redaction(needles: readonly Buffer[], found: () => void): Transform {
  let held: Buffer = Buffer.alloc(0);
  return new Transform({
    transform(chunk: Buffer, _, done): void {
      const bytes = Buffer.concat([held, chunk]);
      if (blot(bytes, needles)) found();
      const keep = Math.max(0, ...needles.map((needle) => beginning(bytes, needle)));
      held = bytes.subarray(bytes.length - keep);
      done(null, bytes.subarray(0, bytes.length - keep));
    },
    flush(done): void {
      done(null, held);
    },
  });
}

function blot(bytes: Buffer, needles: readonly Buffer[]): boolean {
  let isFound = false;
  // Found first and blotted after: one form of a secret may lie across another.
  const spans: (readonly [from: number, to: number])[] = [];
  for (const needle of needles) {
    for (let at = bytes.indexOf(needle); at !== -1; at = bytes.indexOf(needle, at + 1)) {
      spans.push([at, at + needle.length]);
      isFound = true;
    }
  }
  for (const [from, to] of spans) bytes.fill(BLOT, from, to);
  return isFound;
}

/** How many of the last bytes are the first of a needle. */
function beginning(bytes: Buffer, needle: Buffer): number {
  const first = needle[0] ?? 0;
  const from = Math.max(0, bytes.length - needle.length + 1);
  for (let at = bytes.indexOf(first, from); at !== -1; at = bytes.indexOf(first, at + 1)) {
    const tail = bytes.subarray(at);
    if (tail.equals(needle.subarray(0, tail.length))) return tail.length;
  }
  return 0;
}
