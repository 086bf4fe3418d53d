/**
 * Who did not answer of late is not asked again for a while; one who is out keeps no other from
 * being asked.
 */
export interface Outages {
  /** Why this one is not asked now; null where it may be. */
  of(name: string): string | null;
  /** It did not answer: it is left alone for as long as the cooldown. */
  put(name: string, why: string): void;
  /** It never will, in this run. */
  end(name: string, why: string): void;
}

export const COOLDOWN_MS = 30_000;

export function openOutages(nowMs: () => number, cooldownMs: number = COOLDOWN_MS): Outages {
  const until = new Map<string, { readonly atMs: number; readonly why: string }>();
  return {
    of(name) {
      const outage = until.get(name);
      return outage === undefined || nowMs() >= outage.atMs ? null : outage.why;
    },
    put(name, why) {
      until.set(name, { atMs: nowMs() + cooldownMs, why });
    },
    end(name, why) {
      until.set(name, { atMs: Number.POSITIVE_INFINITY, why });
    },
  };
}
