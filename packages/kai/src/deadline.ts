export const DEADLINE_LIMITS = {
  /** The deadline of a candidate, from what the tests take. */
  factor: 3,
  extraMs: 300,
  /** Until enough trials have ended to know how long one takes on a machine that may be busy. */
  firstExtraMs: 1_500,
  hangMs: 400,
  /** The same where deadlines count the time on the processor, and are for the first test that fails. */
  steadyExtraMs: 30,
  steadyFirstExtraMs: 60,
  steadyHangMs: 80,
  timeCount: 40,
} as const;

export type DeadlineOptions = {
  /** How long the tests take. */
  readonly baseMs: number;
  /** They do not end. */
  readonly isHanging: boolean;
  readonly isSteady: boolean;
};

/** How long the next candidate may take, in milliseconds, from what those before it have taken. */
export class Deadlines {
  /** No candidate has less. */
  readonly leastMs: number;
  readonly #options: DeadlineOptions;
  readonly #extraMs: number;
  readonly #firstExtraMs: number;
  readonly #hangMs: number;
  readonly #times: number[] = [];
  #lateCount = 0;

  constructor(options: DeadlineOptions) {
    const { extraMs, firstExtraMs, hangMs } = DEADLINE_LIMITS;
    const { steadyExtraMs, steadyFirstExtraMs, steadyHangMs } = DEADLINE_LIMITS;
    const { isSteady } = options;
    this.#options = options;
    this.#extraMs = isSteady ? steadyExtraMs : extraMs;
    this.#firstExtraMs = isSteady ? steadyFirstExtraMs : firstExtraMs;
    this.#hangMs = isSteady ? steadyHangMs : hangMs;
    this.leastMs = isSteady ? steadyExtraMs : hangMs;
  }

  /** One has ended by itself after so long. */
  took(durationMs: number): void {
    this.#times.push(durationMs);
    if (this.#times.length > DEADLINE_LIMITS.timeCount) this.#times.shift();
  }

  /** One was stopped at its deadline. */
  late(): void {
    this.#lateCount += 1;
  }

  /** Where most of them are late, it was the deadline that was wrong. */
  nextMs(): number {
    const { factor, timeCount } = DEADLINE_LIMITS;
    const { baseMs, isHanging } = this.#options;
    const times = this.#times.toSorted((a, b) => a - b);
    const slow = times[Math.floor(times.length * 0.9)] ?? 0;
    // Of changes to what hangs most hang too, and what does not ends soon.
    if (isHanging) return Math.max(this.#hangMs, slow * factor);
    if (times.length < timeCount / 2) {
      const isWrong = this.#lateCount > 4 && this.#lateCount > times.length;
      return (baseMs * factor + this.#firstExtraMs) * (isWrong ? factor : 1);
    }
    return Math.max(baseMs, slow) * factor + this.#extraMs;
  }
}
