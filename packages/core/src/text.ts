/** Keeps so many bytes of UTF-8 of a text, from its head and its tail, and says what was cut. */
export function clip(text: string, limitBytes: number): string {
  if (!exceeds(text, limitBytes)) return text;
  const half = Math.floor(limitBytes / 2);
  const head = fitting(half, (units) => text.slice(0, units - (parts(text, units) ? 1 : 0)));
  const tail = fitting(half, (units) => {
    const from = text.length - units;
    return text.slice(from + (parts(text, from) ? 1 : 0));
  });
  return `${head}\n(${text.length - head.length - tail.length} characters cut)\n${tail}`;
}

/** Cuts as many UTF-16 units as make at most so many bytes. */
function fitting(limitBytes: number, cut: (units: number) => string): string {
  let units = limitBytes;
  for (;;) {
    const part = cut(units);
    const over = utf8Bytes(part) - limitBytes;
    if (over <= 0) return part;
    // A unit takes at most three bytes, so this many are too many for certain.
    units -= Math.ceil(over / 3);
  }
}

/** Whether a cut at this index would part a surrogate pair. */
function parts(text: string, index: number): boolean {
  const unit = text.charCodeAt(index);
  return unit >= 0xdc00 && unit <= 0xdfff;
}

/** Whether a text takes more than so many bytes in UTF-8. */
function exceeds(text: string, limitBytes: number): boolean {
  if (text.length > limitBytes) return true;
  return text.length * 3 > limitBytes && utf8Bytes(text) > limitBytes;
}

/**
 * How many bytes a text takes in UTF-8. It asks the engine's own code and not a loop of ours, which an
 * engine that only interprets takes a microsecond a byte for.
 */
export function utf8Bytes(text: string): number {
  let bytes = 0;
  for (let from = 0; from < text.length; ) {
    const end = from + PIECE_UNITS;
    const to = parts(text, end) ? end + 1 : end;
    bytes += pieceBytes(text.slice(from, to));
    from = to;
  }
  return bytes;
}

function pieceBytes(piece: string): number {
  if (piece.search(ASCII) === 0) return piece.length;
  const wide = piece.replace(ASCII_RUNS, "");
  return piece.length - wide.length + wideBytes(wide);
}

/** What is not ASCII is escaped as three characters a byte. */
function wideBytes(wide: string): number {
  try {
    return encodeURIComponent(wide).length / 3;
  } catch {
    // Half of a surrogate pair cannot be escaped: it counts as half of what the pair takes.
    return encodeURIComponent(wide.replace(HALVES, "\x80")).length / 3;
  }
}

/** An engine that backtracks remembers each round of a repetition: pieces bound what it remembers. */
const PIECE_UNITS = 4096;
/**
 * Eight at a time: an engine that interprets does so many at the cost of two. Sticky, as it would go on
 * to look from every other place in the text.
 */
const ASCII =
  /(?:[\0-\x7f][\0-\x7f][\0-\x7f][\0-\x7f][\0-\x7f][\0-\x7f][\0-\x7f][\0-\x7f])*[\0-\x7f]{0,7}$/y;
const ASCII_RUNS = /[\0-\x7f]+/g;
const HALVES = /[\ud800-\udfff]/g;
