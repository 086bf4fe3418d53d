/** The payments that bring every balance to zero: whoever owes most pays whoever is owed most. */
export function settle(balances) {
  const open = new Map(balances);
  const payments = [];
  for (;;) {
    const ranked = [...open].sort((a, b) => a[1] - b[1]);
    const [from, debt] = ranked[0] ?? ["", 0];
    const [to, credit] = ranked.at(-1) ?? ["", 0];
    if (debt === 0 || credit === 0) return payments;
    const cents = Math.min(-debt, credit);
    payments.push({ from, to, cents });
    open.set(from, debt + cents);
    open.set(to, credit - cents);
  }
}
