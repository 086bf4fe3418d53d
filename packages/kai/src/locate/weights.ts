import type { FunctionFeature, LineFeature, Values } from "./feature.ts";
import data from "./weights.json" with { type: "json" };

/** Logistic weights. They are data, made by a script that is run over known faults. */
export type Weights = {
  readonly version: 1;
  readonly covered: WeightSet;
  /** Where no coverage could be taken. */
  readonly blind: WeightSet;
};

export type WeightSet = {
  readonly functions: Values<FunctionFeature>;
  readonly lines: Values<LineFeature>;
};

/** The weights that are in use where no others are given. */
export const weights: Weights = { ...data, version: 1 };
