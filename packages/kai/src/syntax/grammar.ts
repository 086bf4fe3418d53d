import { extname } from "node:path";
import { ecma } from "./ecma.ts";
import { go } from "./go.ts";
import { java } from "./java.ts";
import type { Kind } from "./piece.ts";
import { python } from "./python.ts";
import { rust } from "./rust.ts";

export type Language =
  | "javascript"
  | "typescript"
  | "tsx"
  | "python"
  | "go"
  | "rust"
  | "java"
  /** Read as tokens, with no tree. */
  | "other";

/** All that operators have to know of a language: data, and how a few things are said in it. */
export type Grammar = {
  /** Blocks are made by their indentation. */
  readonly indented: boolean;
  /** A name is bound to the block that declares it, and has a fixed type. */
  readonly static: boolean;
  readonly kinds: Readonly<Record<string, Kind>>;
  /** By `parent.field`, where a node's own type does not say what it is. */
  readonly fields: Readonly<Record<string, Kind>>;
  readonly comparisons: readonly string[];
  readonly arithmetic: readonly string[];
  readonly bits: readonly string[];
  readonly and: string;
  readonly or: string;
  readonly not: string;
  readonly none: string;
  readonly true: string;
  readonly false: string;
  /** Values that things start from and that functions give back where there is nothing. */
  readonly empties: readonly string[];
  /** `%` is the value; each turns one value into another. */
  readonly wraps: readonly string[];
  /** `%` and `$` are two values of a kind. */
  readonly pairs: readonly string[];
  /** Of a function's name, an argument worth trying, as it is written. */
  readonly options: readonly (readonly [callee: string, argument: string])[];
  /** A statement by which `$` comes to be in `%`. */
  readonly gathers: readonly string[];
  /** Names of functions and methods that are taken for each other. */
  readonly kin: readonly (readonly string[])[];
  /** `% is nothing`, `% has no elements`: guards worth trying. */
  readonly blanks: readonly string[];
  readonly length: string;
  /** The rest of a sequence from `$` on, up to `$`, and reversed, of `%`. */
  readonly tails: readonly string[];
  readonly heads: readonly string[];
  readonly whole: readonly string[];
  /** A statement of `%` under the condition `$`. */
  readonly guard: string;
  /** What ends a statement. */
  readonly end: string;
  /** Where a method can stand, around `%`. */
  readonly shell: string;
  /** A function may give back nothing. */
  readonly loose: boolean;
};

const GRAMMARS: Readonly<Record<Exclude<Language, "other">, Grammar>> = {
  javascript: ecma,
  typescript: ecma,
  tsx: ecma,
  python,
  go,
  rust,
  java,
};

const EXTENSIONS: Readonly<Record<string, Language>> = {
  ".js": "javascript",
  ".cjs": "javascript",
  ".mjs": "javascript",
  ".jsx": "javascript",
  ".ts": "typescript",
  ".cts": "typescript",
  ".mts": "typescript",
  ".tsx": "tsx",
  ".py": "python",
  ".pyi": "python",
  ".go": "go",
  ".rs": "rust",
  ".java": "java",
};

/** The language of a file, by its name alone. */
export function languageOf(file: string): Language {
  return EXTENSIONS[extname(file).toLowerCase()] ?? "other";
}

export function grammarOf(language: Exclude<Language, "other">): Grammar {
  return GRAMMARS[language];
}
