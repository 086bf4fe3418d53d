import type { CellId } from "@dev/protocol";

/** Has what is done to a cell done one at a time, in the order of asking. */
export type Turns = <T>(id: CellId, work: () => Promise<T>) => Promise<T>;

export function takeTurns(): Turns {
  /** The last of those who wait to look at, or change, a cell. */
  const last = new Map<CellId, Promise<unknown>>();
  return (id, work) => {
    const before = last.get(id) ?? Promise.resolve();
    const mine = before.then(work, work);
    last.set(id, mine);
    const leave = (): void => {
      if (last.get(id) === mine) last.delete(id);
    };
    mine.then(leave, leave);
    return mine;
  };
}
