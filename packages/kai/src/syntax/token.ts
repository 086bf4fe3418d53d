import { ecma } from "./ecma.ts";
import type { Grammar } from "./grammar.ts";
import type { Kind, Piece } from "./piece.ts";
import { type Cut, type Judge, type Source, sourceOf } from "./source.ts";

/** A token of a language that has no grammar here, by the habits that most languages share. */
export type Token = {
  readonly kind: "name" | "integer" | "float" | "string" | "comment" | "operator" | "bracket";
  readonly from: number;
  readonly to: number;
};

const PATTERN = new RegExp(
  [
    String.raw`(?<comment>\/\/[^\n]*|\/\*[\s\S]*?\*\/|#(?=[ !\t])[^\n]*|--(?= )[^\n]*)`,
    String.raw`(?<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')`,
    String.raw`(?<float>\d[\d_]*\.\d+(?:[eE][-+]?\d+)?)`,
    String.raw`(?<integer>0[xXbBoO][\da-fA-F_]+|\d[\d_]*)`,
    String.raw`(?<name>[\p{L}_$@][\p{L}\p{N}_$]*)`,
    String.raw`(?<operator>===|!==|<=>|<=|>=|==|!=|=~|&&|\|\||\+\+|--|->|=>|::|\*\*|<<=|>>=|<<|>>|[-+*/%&|^]=|[-+*/%&|^<>=!~?:.,;])`,
    String.raw`(?<bracket>[()[\]{}])`,
  ].join("|"),
  "gu",
);

const CLOSES: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };

/** What is known of no language in particular. */
const plain: Grammar = {
  ...ecma,
  comparisons: ["<", "<=", ">", ">=", "==", "!="],
  empties: ["0", "1", "-1"],
  wraps: [],
  pairs: [],
  options: [],
  gathers: [],
  blanks: [],
  kin: [["min", "max"]],
  tails: [],
  heads: [],
  whole: [],
  shell: "%",
};

const JOINING: ReadonlySet<string> = new Set([
  ...plain.comparisons,
  ...plain.arithmetic,
  ...plain.bits,
  "&&",
  "||",
  "===",
  "!==",
]);
const ASKING: Readonly<Record<string, Kind>> = {
  if: "if",
  elseif: "if",
  elif: "if",
  while: "while",
};

export function* tokens(text: string): Generator<Token, void> {
  for (const match of text.matchAll(PATTERN)) {
    const groups = match.groups ?? {};
    const kind = KINDS.find((name) => groups[name] !== undefined);
    if (kind !== undefined) yield { kind, from: match.index, to: match.index + match[0].length };
  }
}

/** A source with brackets, calls, conditions and operators told apart, and no functions. */
export function tokenSource(file: string, text: string): Source {
  const list = [...tokens(text)].filter((token) => token.kind !== "comment");
  const root = build("program", "other", 0, text.length, null);
  // A bracket that closes nothing is passed over.
  for (let at = 0; at < list.length; ) at = sequence(root, list, at, text, 0) + 1;
  const balanced = balance(text);
  return sourceOf(file, "other", text, plain, root, () => tokenJudge(text, balanced));
}

const KINDS = ["comment", "string", "float", "integer", "name", "operator", "bracket"] as const;

type Growing = Omit<Piece, "children" | "parent" | "to"> & {
  to: number;
  parent: Piece | null;
  readonly children: Growing[];
};

/** Brackets nested deeper than any person nests them are left out. */
const DEPTH_MAX = 200;

/** Reads the tokens of one bracket, or of the file, and says where it stopped. */
function sequence(
  parent: Growing,
  list: readonly Token[],
  start: number,
  text: string,
  depth: number,
): number {
  let at = start;
  let last: Growing | null = null;
  for (let token = list[at]; token !== undefined; token = list[at]) {
    const said = text.slice(token.from, token.to);
    if (token.kind === "bracket" && CLOSES[said] === undefined) return at;
    const next = list[at + 1];
    if (token.kind !== "operator") {
      at = operand(parent, list, at, text, depth, null);
      last = parent.children.at(-1) ?? null;
      continue;
    }
    at += 1;
    const opens = next !== undefined && text.slice(next.from, next.to) in CLOSES;
    const value = next !== undefined && (opens || !["operator", "bracket"].includes(next.kind));
    if (last === null || !value || !JOINING.has(said)) {
      last = null;
      continue;
    }
    parent.children.pop();
    const whole = add(parent, build("binary", "binary", last.from, token.to, null));
    add(whole, { ...last, field: "left" });
    add(whole, { ...build("operator", "other", token.from, token.to, "operator"), named: false });
    at = operand(whole, list, at, text, depth, "right");
    whole.to = whole.children.at(-1)?.to ?? whole.to;
    last = whole;
  }
  return at;
}

/** Reads a value: `name(` starts a call, `if (` a condition, and any other bracket a group. */
function operand(
  parent: Growing,
  list: readonly Token[],
  at: number,
  text: string,
  depth: number,
  field: string | null,
): number {
  const token = list[at];
  if (token === undefined) return at;
  const said = text.slice(token.from, token.to);
  const next = list[at + 1];
  if (token.kind === "bracket") {
    return inside(
      add(parent, build("group", "other", token.from, token.to, field)),
      list,
      at,
      text,
      depth,
    );
  }
  if (token.kind !== "name" || next === undefined || text.slice(next.from, next.to) !== "(") {
    const kind: Kind = token.kind === "operator" || token.kind === "comment" ? "other" : token.kind;
    add(parent, build(token.kind, kind, token.from, token.to, field));
    return at + 1;
  }
  const asks = ASKING[said];
  const whole = add(parent, build(asks ?? "call", asks ?? "call", token.from, next.to, field));
  if (asks === undefined) add(whole, build("name", "name", token.from, token.to, "function"));
  const kind = asks === undefined ? "arguments" : "paren";
  const held = asks === undefined ? "arguments" : "condition";
  const end = inside(
    add(whole, build(kind, kind, next.from, next.to, held)),
    list,
    at + 1,
    text,
    depth,
  );
  whole.to = whole.children.at(-1)?.to ?? whole.to;
  return end;
}

function inside(
  group: Growing,
  list: readonly Token[],
  at: number,
  text: string,
  depth: number,
): number {
  if (depth >= DEPTH_MAX) return list.length;
  const end = sequence(group, list, at + 1, text, depth + 1);
  const close = list[end];
  group.to = close?.to ?? text.length;
  if (group.kind === "arguments") separated(group, text);
  return close === undefined ? end : end + 1;
}

/** What stands between two commas is one argument, even where it is several words. */
function separated(group: Growing, text: string): void {
  const runs: Growing[][] = [];
  let end = -1;
  for (const child of group.children) {
    const run = runs.at(-1);
    if (run === undefined || text.slice(end, child.from).includes(",")) runs.push([child]);
    else run.push(child);
    end = child.to;
  }
  group.children.length = 0;
  for (const run of runs) {
    const [first] = run;
    const last = run.at(-1);
    if (first === undefined || last === undefined) continue;
    if (run.length === 1) {
      group.children.push(first);
      continue;
    }
    const whole = add(group, build("run", "other", first.from, last.to, null));
    for (const child of run) add(whole, child);
  }
}

function add(parent: Growing, child: Growing): Growing {
  child.parent = parent as Piece;
  // A copy of a piece has to be what its own children are in.
  for (const inner of child.children) inner.parent = child as Piece;
  parent.children.push(child);
  return child;
}

function build(type: string, kind: Kind, from: number, to: number, field: string | null): Growing {
  return { type, kind, field, named: true, from, to, parent: null, children: [] };
}

/** Without a grammar a text is as good as its brackets. */
function tokenJudge(text: string, balanced: boolean): Judge {
  return {
    parses(cuts: readonly Cut[]) {
      if (!balanced) return true;
      let made = "";
      let at = 0;
      for (const cut of cuts) {
        made += text.slice(at, cut.from) + cut.text;
        at = cut.to;
      }
      return balance(made + text.slice(at));
    },
    close() {},
  };
}

function balance(text: string): boolean {
  const open: string[] = [];
  for (const token of tokens(text)) {
    if (token.kind !== "bracket") continue;
    const said = text.slice(token.from, token.to);
    const close = CLOSES[said];
    if (close !== undefined) open.push(close);
    else if (open.pop() !== said) return false;
  }
  return open.length === 0;
}
