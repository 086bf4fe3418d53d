// Conditional logistic regression: of each set of choices one or more are right, and the weights are
// those under which the right ones are likeliest. The same data give the same weights.

/**
 * `sets` are `{ weight, choices }`, a choice `{ right, values: [[feature, value]…], offset }`; a set with
 * no right choice says nothing. `prior` is where the weights start and are held to, by `hold`.
 */
export function fitted(sets, prior, hold, rounds = 300) {
  const weights = [...prior];
  const first = weights.map(() => 0);
  const second = weights.map(() => 0);
  const usable = sets.filter(({ choices }) => choices.some(({ right }) => right));
  for (let round = 1; round <= rounds; round += 1) {
    const slope = weights.map((weight, at) => hold * ((prior[at] ?? 0) - weight));
    for (const set of usable) add(slope, set, weights);
    // Adam, with a step that gets smaller, as the data are few and the features unlike.
    const step = 0.1 / Math.sqrt(1 + round / 30);
    for (const at of weights.keys()) {
      first[at] = 0.9 * first[at] + 0.1 * slope[at];
      second[at] = 0.99 * second[at] + 0.01 * slope[at] ** 2;
      const mean = first[at] / (1 - 0.9 ** round);
      const spread = Math.sqrt(second[at] / (1 - 0.99 ** round));
      weights[at] += (step * mean) / (spread + 1e-8);
    }
  }
  return weights;
}

export function score({ values, offset = 0 }, weights) {
  let sum = offset;
  for (const [feature, value] of values) sum += weights[feature] * value;
  return sum;
}

/** The slope of the logarithm of what the right choices' shares add up to. */
function add(slope, { weight = 1, choices }, weights) {
  const scores = choices.map((choice) => score(choice, weights));
  const most = Math.max(...scores);
  const powers = scores.map((each) => Math.exp(each - most));
  const all = powers.reduce((a, b) => a + b, 0);
  const right = powers.reduce((sum, power, at) => sum + (choices[at].right ? power : 0), 0);
  for (const [at, choice] of choices.entries()) {
    const pull = (choice.right ? powers[at] / right : 0) - powers[at] / all;
    if (Math.abs(pull) < 1e-9) continue;
    for (const [feature, value] of choice.values) slope[feature] += weight * pull * value;
  }
}
