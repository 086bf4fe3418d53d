import type { Fault } from "@dev/protocol";

/** A fault as a person reads it: on what, what failed, what to do. */
export function faultText(fault: Fault): string {
  const subject = fault.subject === "" ? "" : `${fault.subject}: `;
  const mend = fault.mend === "" ? "" : `\n  ${fault.mend}`;
  return printable(`${subject}${fault.message}${mend}`);
}

/**
 * Text from a model or a command, fit for a terminal: line ends and tabs stay, other controls become
 * their pictures (␛, ␍), and what would turn, hide or reorder the text becomes �.
 */
export function printable(text: string): string {
  return text.replace(CONTROLS, (control) => {
    const code = control.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "␡" : "�";
  });
}

/** The same on one line. */
export function onOneLine(text: string): string {
  return printable(text).replaceAll("\n", " ⏎ ").replaceAll("\t", " ");
}

/** As much of a text as fits so many columns; what is cut is marked. A wide character counts as two. */
export function fitted(text: string, columnCount: number): string {
  let taken = 0;
  let kept = "";
  for (const character of text) {
    taken += character.charCodeAt(0) < 0x300 ? 1 : 2;
    if (taken > columnCount) return `${shortened(kept, columnCount)}…`;
    kept += character;
  }
  return text;
}

function shortened(kept: string, columnCount: number): string {
  const characters = [...kept];
  let width = characters.reduce((sum, each) => sum + (each.charCodeAt(0) < 0x300 ? 1 : 2), 0);
  while (width > columnCount - 1) {
    const last = characters.pop();
    if (last === undefined) break;
    width -= last.charCodeAt(0) < 0x300 ? 1 : 2;
  }
  return characters.join("");
}

// Controls; marks, overrides and isolates of direction; separators of lines; what has no width (but the
// two joiners, which words of some languages and emoji need); tags; halves of a surrogate pair.
const CONTROLS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;
