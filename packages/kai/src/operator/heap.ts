/** What was put in, heaviest first; of two that weigh the same, the one put in first. */
export class Heap<T> {
  private readonly held: { readonly weight: number; readonly order: number; readonly item: T }[] =
    [];
  private order = 0;

  /** The weight of what comes next; null when there is nothing. */
  get top(): number | null {
    return this.held[0]?.weight ?? null;
  }

  push(weight: number, item: T): void {
    const { held } = this;
    const made = { weight, order: this.order++, item };
    held.push(made);
    let at = held.length - 1;
    while (at > 0) {
      const up = (at - 1) >> 1;
      const parent = held[up];
      if (parent === undefined || !lighter(parent, made)) break;
      held[at] = parent;
      at = up;
    }
    held[at] = made;
  }

  pop(): T | null {
    const { held } = this;
    const first = held[0];
    const last = held.pop();
    if (first === undefined || last === undefined) return null;
    if (held.length === 0) return first.item;
    let at = 0;
    for (;;) {
      const left = held[2 * at + 1];
      const right = held[2 * at + 2];
      if (left === undefined) break;
      const bigger = right !== undefined && lighter(left, right) ? right : left;
      if (!lighter(last, bigger)) break;
      held[at] = bigger;
      at = bigger === right ? 2 * at + 2 : 2 * at + 1;
    }
    held[at] = last;
    return first.item;
  }
}

type Weighted = { readonly weight: number; readonly order: number };

function lighter(a: Weighted, b: Weighted): boolean {
  return a.weight === b.weight ? a.order > b.order : a.weight < b.weight;
}
