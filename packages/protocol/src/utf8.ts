/** Text as UTF-8. The platform's encoder and decoder are in every host, but not in the language's library. */

declare class TextEncoder {
  encodeInto(text: string, into: Uint8Array): { readonly read: number; readonly written: number };
}
declare class TextDecoder {
  constructor(label: string, options: { readonly fatal: boolean; readonly ignoreBOM: boolean });
  decode(bytes: Uint8Array): string;
}

const ENCODER: TextEncoder = /* @__PURE__ */ new TextEncoder();
// A byte order mark is part of a file's text, and must come back as it went.
const DECODER: TextDecoder = /* @__PURE__ */ new TextDecoder("utf-8", {
  fatal: true,
  ignoreBOM: true,
});

/**
 * Writes as much of `text` as fits `into`, never half a character. `read` counts UTF-16 units of the
 * text, `written` bytes. A lone surrogate is written as U+FFFD: see `isWellFormed`.
 */
export function encodeUtf8(
  text: string,
  into: Uint8Array,
): { readonly read: number; readonly written: number } {
  return ENCODER.encodeInto(text, into);
}

/** The text of `bytes`, or null when they are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return DECODER.decode(bytes);
  } catch {
    return null;
  }
}

/** Whether every surrogate of `text` is half of a pair, so that UTF-8 can carry it unchanged. */
export function isWellFormed(text: string): boolean {
  return (text as Scanned).isWellFormed();
}

/** `text` with every lone surrogate replaced by U+FFFD: what its bytes will say. */
export function wellFormed(text: string): string {
  return (text as Scanned).toWellFormed();
}

// ECMAScript 2024; every supported host has them.
type Scanned = string & { isWellFormed(): boolean; toWellFormed(): string };
