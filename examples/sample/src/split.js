/** Divides cents into shares that differ by one cent at most, the larger ones first. */
export function split(cents, count) {
  if (count < 1) throw new Error("nobody to divide by");
  const sign = Math.sign(cents);
  const share = Math.floor(Math.abs(cents) / count);
  const rest = Math.abs(cents) % count;
  return Array.from({ length: count }, (_, index) => sign * (share + (index < rest ? 1 : 0)));
}

/** What each person has paid beyond their share of all expenses; the balances add up to zero. */
export function balances(expenses, people) {
  const balance = new Map(people.map((name) => [name, 0]));
  for (const { who, cents } of expenses) {
    if (!balance.has(who)) throw new Error(`${who} is not on the trip`);
    balance.set(who, balance.get(who) + cents);
    split(cents, people.length).forEach((share, index) => {
      balance.set(people[index], balance.get(people[index]) - share);
    });
  }
  return balance;
}
