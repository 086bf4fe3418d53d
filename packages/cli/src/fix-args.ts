/** `dev fix`: a test command that fails, and what may be spent on it. */
export type FixCommand = {
  readonly kind: "fix";
  readonly directory: string;
  /** Model answers that are tried; null: as many as is usual. */
  readonly max: number | null;
  /** US dollars; null: no limit. */
  readonly budget: number | null;
  readonly timeoutS: number | null;
  readonly decisions: "rule" | "kai";
  readonly isModelAllowed: boolean;
  readonly json: boolean;
  readonly argv: readonly string[];
};

/** Who decides, where a decision is to be made: rules alone, or a decision service that is configured. */
const DECIDERS = ["rule", "kai"] as const;

type Values = {
  readonly directory?: string;
  readonly max?: string;
  readonly budget?: string;
  readonly timeout?: string;
  readonly mode?: string;
  readonly "no-model"?: boolean;
  readonly json?: boolean;
};

/** Reads what was given to `dev fix`; a text says what was wrong with it. */
export function fixCommand(values: Values, argv: readonly string[]): FixCommand | string {
  const numbers: Record<"max" | "budget" | "timeout", number | null> = {
    max: null,
    budget: null,
    timeout: null,
  };
  for (const name of ["max", "budget", "timeout"] as const) {
    const said = values[name];
    if (said === undefined) continue;
    const value = Number(said);
    const isWhole = name !== "max" || Number.isSafeInteger(value);
    if (said.trim() === "" || !Number.isFinite(value) || value <= 0 || !isWhole) {
      return `--${name} is a number above 0, not "${said}"`;
    }
    numbers[name] = value;
  }
  const decisions = DECIDERS.find((each) => each === (values.mode ?? "kai"));
  if (decisions === undefined) {
    return `--mode is one of ${DECIDERS.join(", ")}, not "${values.mode}"`;
  }
  return {
    kind: "fix",
    directory: values.directory ?? ".",
    max: numbers.max,
    budget: numbers.budget,
    timeoutS: numbers.timeout,
    decisions,
    isModelAllowed: values["no-model"] !== true,
    json: values.json ?? false,
    argv,
  };
}
