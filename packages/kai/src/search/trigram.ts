/** Finds the lines that hold a text among many files, without reading each of them for each question. */
export type Trigrams = {
  /** Puts a file in, or what it has become in place of what it was. */
  put(file: string, text: string): Put;
  /** The lines that hold a text of at least three characters, in order of file as put, at most `max`. */
  lines(needle: string, max: number): readonly Line[];
  held(): Held;
};

export type Put = "held" | "binary" | "long" | "full";

export type Line = {
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
  readonly text: string;
};

/** What an index holds, and what it was given and does not hold. */
export type Held = {
  readonly fileCount: number;
  readonly sizeChars: number;
  readonly binaryCount: number;
  readonly longCount: number;
  readonly fullCount: number;
};

export type TrigramLimits = {
  readonly fileCount: number;
  readonly sizeChars: number;
  /** A longer file is nobody's source. */
  readonly fileChars: number;
};

export const TRIGRAM_LIMITS: TrigramLimits = {
  fileCount: 20_000,
  sizeChars: 48 * 1024 * 1024,
  fileChars: 1024 * 1024,
};

export function openTrigrams(limits: TrigramLimits = TRIGRAM_LIMITS): Trigrams {
  const index: Index = {
    slots: [],
    numbers: new Map(),
    buckets: [],
    seen: new Int32Array(BUCKETS),
  };
  let sizeChars = 0;
  const left = { binary: 0, long: 0, full: 0 };

  return {
    put(file, text) {
      const number = index.numbers.get(file);
      const old = number === undefined ? undefined : index.slots[number];
      if (number !== undefined && old !== undefined) {
        if (old?.text === text) return "held";
        sizeChars -= old?.text.length ?? 0;
        index.slots[number] = null;
        index.numbers.delete(file);
      }
      const put = judged(text, index.numbers.size, sizeChars, limits);
      if (put !== "held") {
        left[put] += 1;
        return put;
      }
      sizeChars += text.length;
      add(index, file, text);
      return "held";
    },
    lines: (needle, max) => lines(index, needle, max),
    held: () => ({
      fileCount: index.numbers.size,
      sizeChars,
      binaryCount: left.binary,
      longCount: left.long,
      fullCount: left.full,
    }),
  };
}

/**
 * Puts files in until the index is full, the first of them first; a file that is not there any more is
 * passed over. Once the index is full nothing more is read, and what is left is counted as such.
 */
export async function fill(
  index: Trigrams,
  files: readonly string[],
  read: (file: string) => Promise<string | null>,
  signal: AbortSignal,
): Promise<{ readonly unreadCount: number }> {
  let fullInARow = 0;
  for (const [at, file] of files.entries()) {
    signal.throwIfAborted();
    const text = await read(file);
    if (text === null) continue;
    fullInARow = index.put(file, text) === "full" ? fullInARow + 1 : 0;
    // One large file may not fit where a small one still does; a row of them says that none does.
    if (fullInARow >= FULL_IN_A_ROW_MAX) return { unreadCount: files.length - at - 1 };
  }
  return { unreadCount: 0 };
}

/** Files in an order that puts those first that share most of their path with any of `to`. */
export function nearest(files: readonly string[], to: readonly string[]): readonly string[] {
  const folders = to.map((file) => file.split("/").slice(0, -1));
  const distance = (file: string): number => {
    const path = file.split("/").slice(0, -1);
    let least = Number.POSITIVE_INFINITY;
    for (const folder of folders) {
      let shared = 0;
      while (shared < path.length && path[shared] === folder[shared]) shared += 1;
      least = Math.min(least, path.length + folder.length - 2 * shared);
    }
    return least;
  };
  const placed = files.map((file, at) => ({ file, at, distance: distance(file) }));
  placed.sort((a, b) => (a.distance === b.distance ? a.at - b.at : a.distance - b.distance));
  return placed.map(({ file }) => file);
}

const FULL_IN_A_ROW_MAX = 32;
const BUCKETS = 1 << 18;
/** A byte that no text has, looked for where a binary file would have it. */
const BINARY_LOOK_CHARS = 8_000;

/** Buckets are of hashes, so a file they name may not hold the text: it is read before it is believed. */
type Index = {
  readonly slots: ({ readonly file: string; readonly text: string } | null)[];
  readonly numbers: Map<string, number>;
  readonly buckets: number[][];
  /** By bucket, the last file put there, counted from 1. */
  readonly seen: Int32Array;
};

function judged(text: string, fileCount: number, sizeChars: number, limits: TrigramLimits): Put {
  if (text.slice(0, BINARY_LOOK_CHARS).includes("\0")) return "binary";
  if (text.length > limits.fileChars) return "long";
  const isFull = fileCount >= limits.fileCount || sizeChars + text.length > limits.sizeChars;
  return isFull ? "full" : "held";
}

function add(index: Index, file: string, text: string): void {
  const number = index.slots.length;
  index.slots.push({ file, text });
  index.numbers.set(file, number);
  let a = text.charCodeAt(0);
  let b = text.charCodeAt(1);
  for (let at = 2; at < text.length; at += 1) {
    const c = text.charCodeAt(at);
    const bucket = bucketOf(a, b, c);
    if (index.seen[bucket] !== number + 1) {
      index.seen[bucket] = number + 1;
      const bucketFiles = index.buckets[bucket];
      if (bucketFiles === undefined) index.buckets[bucket] = [number];
      else bucketFiles.push(number);
    }
    a = b;
    b = c;
  }
}

function bucketOf(a: number, b: number, c: number): number {
  return (Math.imul(a, 0x9e37_79b1) ^ Math.imul(b, 0x85eb_ca6b) ^ Math.imul(c, 0xc2b2_ae35)) >>> 14;
}

function lines(index: Index, needle: string, max: number): readonly Line[] {
  if (needle.length < 3) return [];
  const found: Line[] = [];
  for (const number of filesWith(index, needle)) {
    const slot = index.slots[number];
    if (slot === null || slot === undefined) continue;
    let line = 1;
    let counted = 0;
    for (let at = slot.text.indexOf(needle); at >= 0; ) {
      for (let end = slot.text.indexOf("\n", counted); end >= 0 && end < at; ) {
        line += 1;
        counted = end + 1;
        end = slot.text.indexOf("\n", counted);
      }
      if (found.length === max) return found;
      const end = slot.text.indexOf("\n", at);
      const to = end < 0 ? slot.text.length : end;
      found.push({ file: slot.file, line, text: slot.text.slice(counted, to) });
      at = end < 0 ? -1 : slot.text.indexOf(needle, end + 1);
    }
  }
  return found;
}

/** The files that all buckets of a text name, which may be a few too many. */
function filesWith(index: Index, needle: string): readonly number[] {
  const lists: (readonly number[])[] = [];
  for (let at = 0; at + 2 < needle.length; at += 1) {
    const bucket = bucketOf(
      needle.charCodeAt(at),
      needle.charCodeAt(at + 1),
      needle.charCodeAt(at + 2),
    );
    lists.push(index.buckets[bucket] ?? []);
  }
  lists.sort((a, b) => a.length - b.length);
  const [first = [], ...others] = lists;
  let left = first;
  for (const other of others.slice(0, LISTS_MAX)) {
    if (left.length <= FEW) break;
    const has = new Set(other);
    left = left.filter((number) => has.has(number));
  }
  return left;
}

/** So few files are as soon read as told apart by more buckets. */
const FEW = 4;
const LISTS_MAX = 8;
