const AMOUNT = /^-?(\d+)(?:\.(\d{2}))?$/;

/** Reads an amount such as `12.50` or `-3` as whole cents. */
export function parseMoney(text) {
  const match = AMOUNT.exec(text.trim());
  if (!match) throw new Error(`not an amount: ${text}`);
  const cents = Number(match[1]) * 100 + Number(match[2] ?? 0);
  return Number.parseInt(text, 10) < 0 ? -cents : cents;
}

/** Writes whole cents as an amount with two decimals. */
export function formatMoney(cents) {
  const digits = String(Math.abs(cents)).padStart(3, "0");
  return `${cents < 0 ? "-" : ""}${digits.slice(0, -2)}.${digits.slice(-2)}`;
}
