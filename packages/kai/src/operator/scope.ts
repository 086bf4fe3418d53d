import {
  ancestor,
  assignOf,
  bare,
  callOf,
  conditionOf,
  isTarget,
  isValue,
  type Kind,
  type Piece,
  parts,
  statementAt,
  within,
} from "../syntax/piece.ts";
import type { FunctionSite, Source } from "../syntax/source.ts";

/** A name that is read or assigned in a region. */
export type Variable = {
  readonly text: string;
  readonly kind: "parameter" | "local" | "free";
  readonly count: number;
  /** Where it can first be read. */
  readonly from: number;
  /** What it can be read in; null where a language has no blocks for names. */
  readonly holder: Piece | null;
  /** Its declared type, as written; null where there is none. */
  readonly type: string | null;
};

/** An expression of the region's own that can stand elsewhere. */
export type Donor = {
  readonly text: string;
  readonly kind: Kind;
  readonly piece: Piece;
  readonly count: number;
};

/** A function, or what is outside of all, and what its pieces offer; all of it found once, when asked. */
export type Scope = {
  readonly source: Source;
  readonly region: Piece;
  readonly pieces: readonly Piece[];
  text(piece: Piece): string;
  variables(): readonly Variable[];
  /** Those that can be read at a place, the nearest and most used first. */
  visible(at: Piece): readonly Variable[];
  /** The names that are assigned to, and those that a loop goes on with. */
  assigned(): ReadonlySet<string>;
  donors(): readonly Donor[];
  conditions(): readonly Donor[];
  statements(): readonly Piece[];
  integers(): readonly string[];
  strings(): readonly string[];
  /** The calls of a function to itself. */
  recursive(): ReadonlySet<Piece>;
  /** What the file says about names of members and functions. */
  readonly members: Members;
};

export type Members = {
  /** Attributes read of a receiver, by its text; all of them under the empty text. */
  readonly attributes: ReadonlyMap<string, readonly string[]>;
  /** Methods called, likewise. */
  readonly methods: ReadonlyMap<string, readonly string[]>;
  /** How a function is called: with how many arguments. */
  readonly callees: ReadonlyMap<string, number>;
  /** And how a method is. */
  readonly arities: ReadonlyMap<string, number>;
  readonly strings: readonly string[];
  /** What ends a statement, as the file has it. */
  readonly end: string;
};

const DONOR_CHARS_MAX = 48;
const DONORS_MAX = 120;
const PIECES_MAX = 20_000;

export function scopeOf(source: Source, region: Piece, members: Members): Scope {
  const pieces = regionPieces(source, region);
  const text = (piece: Piece): string => source.text.slice(piece.from, piece.to);
  const seen = new Map<Piece, readonly Variable[]>();
  const variables = once(() => variablesOf(source, region, pieces));
  const donors = once(() =>
    gathered(
      pieces.filter((piece) => isValue(piece) || targetPiece(piece)),
      text,
    ),
  );
  const conditions = once(() => gathered(conditionPieces(pieces), text));
  return {
    source,
    region,
    pieces,
    text,
    variables,
    visible(at) {
      const anchor = anchorOf(at);
      const held = seen.get(anchor) ?? visibleAt(variables(), anchor, source.grammar.static);
      seen.set(anchor, held);
      return held;
    },
    assigned: once(() => assignedOf(pieces, text)),
    donors,
    conditions,
    statements: once(() =>
      pieces.filter((piece) => piece.parent?.kind === "block" && statementAt(piece) === piece),
    ),
    integers: once(() => textsOf(pieces, "integer", text)),
    strings: once(() => textsOf(pieces, "string", text)),
    recursive: once(() => recursiveOf(pieces, text)),
    members,
  };
}

export function membersOf(source: Source): Members {
  const attributes = new Map<string, Set<string>>();
  const methods = new Map<string, Set<string>>();
  const callees = new Map<string, number>();
  const arities = new Map<string, number>();
  const strings = new Set<string>();
  const text = (piece: Piece): string => source.text.slice(piece.from, piece.to);
  const add = (to: Map<string, Set<string>>, key: string, value: string): void => {
    for (const each of key === "" ? [""] : ["", key]) {
      const held = to.get(each) ?? new Set<string>();
      to.set(each, held.add(value));
    }
  };
  for (const site of source.functions) callees.set(site.name, site.parameterCount);
  for (const piece of within(source.root)) {
    if (piece.kind === "string" && piece.to - piece.from <= DONOR_CHARS_MAX)
      strings.add(text(piece));
    const call = callOf(piece);
    if (call !== null && call.receiver !== null) {
      arities.set(text(call.callee), call.arguments.length);
      add(methods, text(call.receiver).slice(0, DONOR_CHARS_MAX), text(call.callee));
    } else if (call !== null && call.callee.to - call.callee.from <= DONOR_CHARS_MAX) {
      callees.set(text(call.callee), call.arguments.length);
    }
    if (piece.kind === "attribute" && piece.field !== "function") {
      const member = piece.children.findLast((child) => child.kind === "member");
      const receiver = piece.children[0];
      if (member !== undefined && receiver !== undefined) {
        add(attributes, text(receiver).slice(0, DONOR_CHARS_MAX), text(member));
      }
    }
  }
  const listed = (map: Map<string, Set<string>>): ReadonlyMap<string, readonly string[]> =>
    new Map([...map].map(([key, values]) => [key, [...values]]));
  return {
    attributes: listed(attributes),
    methods: listed(methods),
    callees,
    arities,
    strings: [...strings],
    end: endOf(source),
  };
}

/** A language in which `;` can be left out has files that do. */
function endOf(source: Source): string {
  const { end, static: fixed } = source.grammar;
  if (fixed || end === "") return end;
  const closed = source.text.split(/;[ \t]*\r?\n/).length;
  const open = source.text.split(/[\w)\]'"`][ \t]*\r?\n/).length;
  return closed >= open ? end : "";
}

/** The functions that are in no other: with what is outside of them, all that can be changed. */
export function outermost(source: Source): readonly FunctionSite[] {
  let end = -1;
  return source.functions.filter((site) => {
    if (site.from < end) return false;
    end = site.to;
    return true;
  });
}

/** The pieces of a function; of the root, those that are in no named function. */
function regionPieces(source: Source, region: Piece): readonly Piece[] {
  const found: Piece[] = [];
  const apart = new Set(region.parent === null ? source.functions.map((site) => site.piece) : []);
  const take = (piece: Piece): void => {
    if (found.length >= PIECES_MAX || apart.has(piece)) return;
    if (piece.named) found.push(piece);
    for (const child of piece.children) take(child);
  };
  take(region);
  return found;
}

function variablesOf(source: Source, region: Piece, pieces: readonly Piece[]): readonly Variable[] {
  const found = new Map<string, Variable>();
  for (const piece of pieces) {
    if (piece.kind !== "name" && piece.kind !== "title") continue;
    const parameter = ancestor(piece, ["parameters", "function", "lambda"])?.kind === "parameters";
    const given = parameter || isShortParameter(piece);
    const target = given || isTarget(piece) || ancestor(piece, ["pattern"]) !== null;
    if (piece.kind === "title" && !given) continue;
    if (!target && !isValue(piece)) continue;
    const text = source.text.slice(piece.from, piece.to);
    const held = found.get(text);
    if (held !== undefined) {
      found.set(text, { ...held, count: held.count + 1 });
      continue;
    }
    found.set(text, {
      text,
      kind: given ? "parameter" : target ? "local" : "free",
      count: 1,
      from: piece.from,
      holder: target ? holderOf(piece, region) : null,
      type: target ? typeOf(piece, source.text) : null,
    });
  }
  return [...found.values()];
}

function visibleAt(variables: readonly Variable[], at: Piece, fixed: boolean): readonly Variable[] {
  const readable = variables.filter(
    (variable) =>
      variable.kind === "free" ||
      variable.holder === null ||
      // A language without blocks for names may read in a loop what is only assigned below.
      (variable.holder.from <= at.from &&
        at.to <= variable.holder.to &&
        (!fixed || variable.from <= at.to)),
  );
  return readable.toSorted(
    (a, b) =>
      Number(a.kind === "free") - Number(b.kind === "free") ||
      Number(a.from > at.from) - Number(b.from > at.from) ||
      b.count - a.count,
  );
}

const ANCHORS: readonly Kind[] = ["lambda", "comprehension", "function"];

/** The innermost piece around a place that says which names can be read there. */
function anchorOf(piece: Piece): Piece {
  for (let at: Piece | null = piece; at !== null; at = at.parent) {
    if (at.parent?.kind === "block" || ANCHORS.includes(at.kind)) return at;
  }
  return piece;
}

function assignedOf(pieces: readonly Piece[], text: (piece: Piece) => string): ReadonlySet<string> {
  const found = new Set<string>();
  for (const piece of pieces) {
    const target = assignOf(piece)?.target;
    if (target !== undefined) {
      for (const name of target.kind === "name" ? [target] : parts(target)) {
        if (name.kind === "name") found.add(text(name));
      }
    }
    if (piece.kind === "update") for (const part of parts(piece)) found.add(text(part));
    // What a loop goes on with has to change in it.
    const condition = piece.kind === "while" ? conditionOf(piece) : null;
    if (condition === null) continue;
    for (const part of within(condition)) if (part.kind === "name") found.add(text(part));
  }
  return found;
}

function isShortParameter(piece: Piece): boolean {
  return piece.field === "parameter" || piece.parent?.type === "inferred_parameters";
}

function holderOf(piece: Piece, region: Piece): Piece {
  const kinds: readonly Kind[] = ["function", "lambda", "for", "each", "comprehension", "block"];
  return ancestor(piece, kinds) ?? region;
}

/** Of a declaration: the type beside the name, or beside the declarator that the name is in. */
function typeOf(piece: Piece, text: string): string | null {
  const holder = piece.parent;
  for (const at of [holder, holder?.kind === "assign" ? holder.parent : null]) {
    const type = at?.children.find((child) => child.field === "type" && child !== piece);
    if (type !== undefined) return text.slice(type.from, type.to).replace(/^:\s*/, "");
  }
  return null;
}

/** A place that is assigned to, such as `a[i]`, can stand for another. */
function targetPiece(piece: Piece): boolean {
  return isTarget(piece) && (piece.kind === "index" || piece.kind === "attribute");
}

function conditionPieces(pieces: readonly Piece[]): readonly Piece[] {
  const found: Piece[] = [];
  for (const piece of pieces) {
    const condition = conditionOf(piece);
    if (condition === null) continue;
    for (const part of within(condition)) {
      const asks = part === condition || part.kind === "binary" || part.kind === "unary";
      if (asks && part.named && isValue(part)) found.push(bare(part));
    }
  }
  return found;
}

function gathered(pieces: readonly Piece[], text: (piece: Piece) => string): readonly Donor[] {
  const found = new Map<string, Donor>();
  for (const piece of pieces) {
    if (piece.to - piece.from > DONOR_CHARS_MAX || piece.kind === "paren") continue;
    const said = text(piece);
    const held = found.get(said);
    if (held === undefined) found.set(said, { text: said, kind: piece.kind, piece, count: 1 });
    else found.set(said, { ...held, count: held.count + 1 });
    if (found.size >= DONORS_MAX) break;
  }
  return [...found.values()];
}

function textsOf(
  pieces: readonly Piece[],
  kind: Kind,
  text: (piece: Piece) => string,
): readonly string[] {
  return [...new Set(pieces.filter((piece) => piece.kind === kind).map(text))];
}

function recursiveOf(pieces: readonly Piece[], text: (piece: Piece) => string): ReadonlySet<Piece> {
  const found = new Set<Piece>();
  for (const piece of pieces) {
    const call = callOf(piece);
    if (call === null) continue;
    for (let at = piece.parent; at !== null; at = at.parent) {
      const name = at.kind === "function" ? at.children.find((c) => c.field === "name") : undefined;
      if (name !== undefined && text(name) === text(call.callee)) found.add(piece);
    }
  }
  return found;
}

function once<T>(make: () => T): () => T {
  let held: { readonly value: T } | null = null;
  return () => {
    held ??= { value: make() };
    return held.value;
  };
}
