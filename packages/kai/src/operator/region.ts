import type { Piece } from "../syntax/piece.ts";
import type { Cut, Judge, Source } from "../syntax/source.ts";
import { type Members, membersOf, outermost } from "./scope.ts";
import type { Weights } from "./weights.ts";

/** Lines of a file, both ends included, and how likely the fault is in them: the highest that holds a line counts. */
export type Suspect = {
  readonly file: string;
  /** Counted from 1. */
  readonly firstLine: number;
  readonly lastLine: number;
  readonly weight: number;
};

/** A function in no other, or what is outside of all in a file, with how likely the fault is in it. */
export type Region = {
  readonly source: Source;
  readonly piece: Piece;
  readonly members: () => Members;
  /** Of what is suspected most in it, to the power that suspicion is taken to. */
  readonly weight: number;
  /** To the same power. */
  suspicion(piece: Piece): number;
  /** Made when they are first needed; closed with the region. */
  readonly judges: Map<Piece, Judge>;
};

/** All that is suspected, what is suspected most first. */
export function regionsOf(
  sources: readonly Source[],
  suspects: readonly Suspect[],
  { suspicion: power }: Weights,
): readonly Region[] {
  const regions: Region[] = [];
  for (const source of sources) {
    const own = suspects.filter((suspect) => suspect.file === source.file && suspect.weight > 0);
    if (own.length === 0) continue;
    const byLine = new Map<number, number>();
    const lastLine = source.line(source.text.length);
    for (const { firstLine, lastLine: last, weight } of own) {
      for (let line = Math.max(1, firstLine); line <= Math.min(last, lastLine); line += 1) {
        byLine.set(line, Math.max(byLine.get(line) ?? 0, weight ** power));
      }
    }
    let held: Members | null = null;
    const members = (): Members => {
      held ??= membersOf(source);
      return held;
    };
    const suspicion = (piece: Piece): number => byLine.get(source.line(piece.from)) ?? 0;
    const taken = new Set<number>();
    for (const site of outermost(source)) {
      let weight = 0;
      for (let line = site.firstLine; line <= site.lastLine; line += 1) {
        weight = Math.max(weight, byLine.get(line) ?? 0);
        taken.add(line);
      }
      if (weight <= 0) continue;
      regions.push({ source, piece: site.piece, members, weight, suspicion, judges: new Map() });
    }
    const rest = [...byLine].filter(([line]) => !taken.has(line)).map(([, weight]) => weight);
    const weight = rest.reduce((a, b) => Math.max(a, b), 0);
    if (weight > 0) {
      regions.push({ source, piece: source.root, members, weight, suspicion, judges: new Map() });
    }
  }
  return regions.toSorted((a, b) => b.weight - a.weight);
}

/** What is outside of functions is judged by the statement it is in, as a function is by itself. */
export function judgeFor(region: Region, cuts: readonly Cut[]): Judge {
  const { source, judges } = region;
  const from = cuts[0]?.from ?? 0;
  const to = cuts.at(-1)?.to ?? 0;
  const holds = (child: Piece): boolean => child.named && child.from <= from && to <= child.to;
  const rooted = region.piece.parent === null;
  const piece = rooted ? (region.piece.children.find(holds) ?? region.piece) : region.piece;
  const judge = judges.get(piece) ?? source.judge(piece);
  judges.set(piece, judge);
  return judge;
}

/** Frees the judges of a region. */
export function close(region: Region): void {
  for (const judge of region.judges.values()) judge.close();
  region.judges.clear();
}
