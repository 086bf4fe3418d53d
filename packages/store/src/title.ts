/** How wide a title may be, in terminal columns. */
export const TITLE_LIMIT_COLUMNS = 80;
/** How long it may be in UTF-16 units: marks that take no column could go on without end. */
export const TITLE_LIMIT_UNITS = 400;

/** The first line of a prompt that says anything, cut to the limit; empty when none does. */
export function titleOf(prompt: string): string {
  for (const line of prompt.split(/[\n\r\u2028\u2029]/)) {
    const text = line.replace(ACTIVE, " ").replace(HALF, "\u{fffd}").trim();
    if (text !== "") return cut(text);
  }
  return "";
}

function cut(text: string): string {
  let columns = 0;
  let kept = "";
  let whole = "";
  for (const sign of text) {
    columns += widthOf(sign);
    const full = columns > TITLE_LIMIT_COLUMNS || whole.length + sign.length > TITLE_LIMIT_UNITS;
    if (full) return `${kept}…`;
    whole += sign;
    // What is kept leaves a column for the ellipsis.
    if (columns < TITLE_LIMIT_COLUMNS && whole.length < TITLE_LIMIT_UNITS) kept = whole;
  }
  return whole;
}

// A title is printed in lists: these would act on the terminal, or on the order of its text.
const ACTIVE = /[\p{Cc}\p{Bidi_Control}\s]+/gu;
// Half of a surrogate pair, which no encoding of text can carry.
const HALF = /\p{Cs}/gu;
const ZERO = /^[\p{Mn}\p{Me}\p{Cf}]$/u;
const WIDE =
  /^[\p{sc=Han}\p{sc=Hangul}\p{sc=Hiragana}\p{sc=Katakana}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60]$/u;

function widthOf(sign: string): number {
  if (ZERO.test(sign)) return 0;
  return WIDE.test(sign) ? 2 : 1;
}
