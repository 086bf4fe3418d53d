// What a run of the bench comes to, beside what is asked of it.

/**
 * Shares of cases, percentages of the verified, and milliseconds. `bar` is what has to be reached,
 * `moonshot` what would be splendid. Cases are of kinds by the beginning of their names.
 */
const BARS = [
  share("fixed within 2.5 s", "quix", 2_500, 75, 90),
  share("fixed within 8 s", "quix", 8_000, 92, 100),
  share("fixed within 60 s", "quix", 60_000, 100, 100),
  share("fixed within 8 s, judged by wide", "hep-python", 8_000, 56, 68, { isWide: true }),
  share("fixed within 8 s, judged by wide", "hep-js", 8_000, 50, 62, { isWide: true }),
  share("fixed within 60 s, judged by wide", "hep-java", 60_000, 45, 65, { isWide: true }),
  share("fixed within 8 s, all tests visible", "hep-python", 8_000, 65, 78, { visible: "all" }),
  share("fixed within 8 s, all tests visible", "hep-js", 8_000, 58, 72, { visible: "all" }),
];
const WRONG = { kinds: ["hep-python", "hep-js"], bar: 12, moonshot: 5 };
const TIME = { median: { bar: 2_000, moonshot: 1_000 }, p90: { bar: 8_000, moonshot: 4_000 } };
const TOPS = [1, 3, 5, 10];

function share(what, kind, withinMs, bar, moonshot, more = {}) {
  return { what, kind, withinMs, bar, moonshot, isWide: false, visible: "stated", ...more };
}

/** Sums up attempts: `rows` for the table, and `isMet`, whether all bars that were measured are reached. */
export function summary(attempts, visible) {
  const whole = attempts.filter(({ killed }) => !killed);
  const rows = [
    ...BARS.filter((bar) => bar.visible === visible).flatMap((bar) => shareRow(bar, whole)),
    ...wrongRows(whole),
    ...timeRows(whole),
    countRow("verified, and not confirmed cold", whole.filter(unconfirmed)),
    countRow(
      "leftovers",
      attempts.filter(({ leftovers }) => leftovers.length > 0),
    ),
  ];
  return { rows, isMet: rows.every(({ met }) => met !== false) };
}

function unconfirmed({ verified, confirmed }) {
  return verified && !confirmed;
}

function shareRow({ what, kind, withinMs, bar, moonshot, isWide }, attempts) {
  const own = attempts.filter((each) => each.kind === kind);
  if (own.length === 0) return [];
  const done = own.filter(
    (each) => each.confirmed && timeOf(each) <= withinMs && (!isWide || each.wide),
  );
  const value = (100 * done.length) / own.length;
  const found = `${value.toFixed(0)} % (${done.length} of ${own.length})`;
  return [
    {
      what: `${kind}: ${what}`,
      found,
      bar: `${bar} %`,
      moonshot: `${moonshot} %`,
      met: value >= bar,
    },
  ];
}

function wrongRows(attempts) {
  return WRONG.kinds.flatMap((kind) => {
    const verified = attempts.filter((each) => each.kind === kind && each.verified);
    if (verified.length === 0) return [];
    const wrong = verified.filter(({ wide }) => !wide);
    const value = (100 * wrong.length) / verified.length;
    const found = `${value.toFixed(0)} % (${wrong.length} of ${verified.length})`;
    const { bar, moonshot } = WRONG;
    const what = `${kind}: verified that fails wide`;
    return [{ what, found, bar: `≤ ${bar} %`, moonshot: `≤ ${moonshot} %`, met: value <= bar }];
  });
}

function timeRows(attempts) {
  const times = attempts.filter(({ verified }) => verified).map(timeOf);
  if (times.length === 0) return [];
  return Object.entries(TIME).map(([name, { bar, moonshot }]) => {
    const value = quantile(times, name === "median" ? 0.5 : 0.9);
    return {
      what: `time to the first verified fix, ${name}`,
      found: `${(value / 1000).toFixed(1)} s`,
      bar: `${bar / 1000} s`,
      moonshot: `${moonshot / 1000} s`,
      met: value <= bar,
    };
  });
}

function countRow(what, found) {
  const ids = found.map(({ id }) => id).slice(0, 8);
  const named = found.length === 0 ? "0" : `${found.length}: ${ids.join(" ")}`;
  return { what, found: named, bar: "0", moonshot: "0", met: found.length === 0 };
}

/** As the command tells it; where it does not, the whole of its time. */
function timeOf({ firstMs, ms }) {
  return firstMs ?? ms;
}

export function quantile(values, at) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.ceil(at * sorted.length) - 1] ?? sorted[0];
}

/** All that is printed, as lines. */
export function printed(attempts, visible) {
  const { rows } = summary(attempts, visible);
  const heads = { what: "", found: "found", bar: "bar", moonshot: "moonshot" };
  const lines = aligned([heads, ...rows], ["what", "found", "bar", "moonshot"]);
  const marks = ["", ...rows.map(({ met }) => (met ? "" : "  <- not reached"))];
  return [
    ...lines.map((line, at) => line + marks[at]),
    "",
    ...kindLines(attempts),
    "",
    ...operatorLines(attempts),
    "",
    ...locateLines(attempts),
  ];
}

function kindLines(attempts) {
  const rows = grouped(attempts, ({ kind }) => kind).map(([kind, own]) => {
    const tried = own.flatMap(({ triedCount }) => triedCount ?? []);
    const times = own.filter(({ verified }) => verified).map(timeOf);
    return {
      kind,
      cases: String(own.length),
      verified: String(own.filter(({ verified }) => verified).length),
      wrong: String(own.filter(({ verified, wide }) => verified && !wide).length),
      ambiguous: String(own.filter(({ exit }) => exit === 5).length),
      failed: String(own.filter(({ exit }) => ![0, 1, 5].includes(exit)).length),
      median: times.length === 0 ? "-" : `${(quantile(times, 0.5) / 1000).toFixed(1)} s`,
      p90: times.length === 0 ? "-" : `${(quantile(times, 0.9) / 1000).toFixed(1)} s`,
      tried: tried.length === 0 ? "-" : String(quantile(tried, 0.5)),
      litter: String(own.reduce((sum, { litterCount }) => sum + litterCount, 0)),
    };
  });
  const names = Object.keys(rows[0] ?? {});
  const heads = Object.fromEntries(names.map((name) => [name, name]));
  return rows.length === 0 ? [] : aligned([heads, ...rows], names);
}

function operatorLines(attempts) {
  const verified = attempts.filter(({ verified }) => verified);
  const rows = grouped(verified, ({ operator }) => operator ?? "not said").map(
    ([operator, own]) => ({
      operator,
      verified: String(own.length),
      wrong: String(own.filter(({ wide }) => !wide).length),
    }),
  );
  rows.sort((a, b) => Number(b.verified) - Number(a.verified));
  const heads = { operator: "operator", verified: "verified", wrong: "wrong" };
  return aligned([heads, ...rows], ["operator", "verified", "wrong"]);
}

function locateLines(attempts) {
  const located = attempts.filter(({ locate }) => locate);
  if (located.length === 0) return [];
  const rows = grouped(located, ({ kind }) => kind).flatMap(([kind, own]) =>
    ["covered", "blind"].flatMap((view) => {
      const seen = own.flatMap(({ locate }) => locate[view] ?? []);
      if (seen.length === 0) return [];
      const tops = (name) =>
        TOPS.map((top) => seen.filter((ranks) => ranks[name] !== null && ranks[name] < top).length);
      return [
        {
          kind,
          view,
          of: String(seen.length),
          functions: tops("function").join(" / "),
          lines: tops("line").join(" / "),
        },
      ];
    }),
  );
  const heads = { kind: "locate", view: "", of: "of", functions: "", lines: "" };
  heads.functions = `function in the first ${TOPS.join(" / ")}`;
  heads.lines = `line in the first ${TOPS.join(" / ")}`;
  return aligned([heads, ...rows], ["kind", "view", "of", "functions", "lines"]);
}

function grouped(list, keyOf) {
  const groups = new Map();
  for (const each of list) groups.set(keyOf(each), [...(groups.get(keyOf(each)) ?? []), each]);
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
}

function aligned(rows, names) {
  const widths = names.map((name) => Math.max(...rows.map((row) => row[name].length)));
  return rows.map((row) =>
    names
      .map((name, at) => row[name].padEnd(widths[at]))
      .join("  ")
      .trimEnd(),
  );
}
