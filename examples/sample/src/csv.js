import { parseMoney } from "./money.js";

/** Reads expenses from CSV with the columns `who`, `amount` and `what`, in any order. */
export function readExpenses(text) {
  const [header, ...rows] = parseCsv(text);
  const column = (name) => {
    const index = header.indexOf(name);
    if (index < 0) throw new Error(`no column ${name}`);
    return index;
  };
  const [who, amount, what] = [column("who"), column("amount"), column("what")];
  return rows.map((row) => ({ who: row[who], cents: parseMoney(row[amount]), what: row[what] }));
}

/** Reads RFC 4180 CSV: rows of fields, where a quoted field may hold commas, quotes and newlines. */
export function parseCsv(text) {
  const rows = [[]];
  const field = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r?\n|$)/y;
  while (field.lastIndex < text.length) {
    const match = field.exec(text);
    if (!match) throw new Error(`row ${rows.length}: a quote is not closed`);
    const [, raw, end] = match;
    rows.at(-1).push(raw.startsWith('"') ? raw.slice(1, -1).replaceAll('""', '"') : raw);
    if (end !== "," && field.lastIndex < text.length) rows.push([]);
  }
  return rows;
}
