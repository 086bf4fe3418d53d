import type { Piece } from "../syntax/piece.ts";
import type { EditFeature } from "./feature.ts";
import type { Proposal } from "./operator.ts";
import type { Scope } from "./scope.ts";

/** Whole statements put in, taken out and moved, with the indentation of where they come to be. */

/** The white space that the line of a place begins with. */
export function indentAt(text: string, offset: number): string {
  const start = text.lastIndexOf("\n", offset - 1) + 1;
  return /^[ \t]*/.exec(text.slice(start, offset))?.[0] ?? "";
}

/** New lines end as those of the file do. */
export function endings(made: string, text: string): string {
  return made.includes("\n") && text.includes("\r\n") ? made.replace(/\r?\n/g, "\r\n") : made;
}

/** Whether nothing but white space stands before it on its line. */
export function leads(piece: Piece, scope: Scope): boolean {
  const { text } = scope.source;
  const start = text.lastIndexOf("\n", piece.from - 1) + 1;
  return text.slice(start, piece.from).trim() === "";
}

export function before(
  statement: Piece,
  text: string,
  scope: Scope,
  ...features: readonly EditFeature[]
): Proposal {
  const indent = indentAt(scope.source.text, statement.from);
  const made = `${indented(text, indent)}\n${indent}`;
  return { cuts: [{ from: statement.from, to: statement.from, text: made }], features };
}

export function after(
  statement: Piece,
  text: string,
  scope: Scope,
  ...features: readonly EditFeature[]
): Proposal {
  const indent = indentAt(scope.source.text, statement.from);
  const made = `\n${indent}${indented(text, indent)}`;
  const to = ended(statement, scope);
  return { cuts: [{ from: to, to, text: made }], features };
}

/** Takes a statement out with its line where it has one of its own. */
export function removed(
  statement: Piece,
  scope: Scope,
): { from: number; to: number; text: string } {
  const { text } = scope.source;
  const feed = text.lastIndexOf("\n", statement.from - 1);
  const start = text[feed - 1] === "\r" ? feed - 1 : feed;
  const to = ended(statement, scope);
  const lone = start >= 0 && text.slice(start, statement.from).trim() === "";
  const ends = /^[ \t]*(\r?\n|$)/.test(text.slice(to, to + 80));
  return { from: lone && ends ? start : statement.from, to, text: "" };
}

/** A statement's text with the indentation that its first line gives it taken away. */
export function outdented(statement: Piece, scope: Scope): string {
  const indent = indentAt(scope.source.text, statement.from);
  return scope.text(statement).replaceAll(`\n${indent}`, "\n");
}

export function indented(text: string, indent: string): string {
  return text.replaceAll("\n", `\n${indent}`);
}

/** The end of a statement with the `;` that some grammars keep beside it. */
function ended(statement: Piece, scope: Scope): number {
  return scope.source.text[statement.to] === ";" ? statement.to + 1 : statement.to;
}
