// Says what a function does under one text of its file; loaded with `--require`. With KAI_BEHAVIOUR, a
// folder, it notes what the function is called with while the tests run; with KAI_ANSWER, a file, it
// answers inputs like these once the program has loaded the text.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { inspect } = require("node:util");
const v8 = require("node:v8");

const CALLS_MAX = 120;
const ROUNDS = 3;
const ENOUGH = 60;
const SHOWN = {
  depth: 8,
  maxArrayLength: 200,
  maxStringLength: 2000,
  sorted: true,
  breakLength: Infinity,
};

const { KAI_BEHAVIOUR: folder, KAI_ANSWER: asked } = process.env;
if (asked) prepare(JSON.parse(fs.readFileSync(asked, "utf8")));
else if (folder) record();

function record() {
  const calls = [];
  const seen = new Set();
  const write = fs.writeFileSync;
  globalThis.__kaiCall = (given) => {
    if (calls.length >= CALLS_MAX) return;
    try {
      const args = Array.from(given);
      const key = inspect(args, SHOWN);
      if (seen.has(key)) return;
      seen.add(key);
      calls.push(v8.serialize(args));
    } catch {
      // What cannot be copied is no input for another process.
    }
  };
  process.on("exit", () => {
    if (calls.length > 0) write(path.join(folder, `${process.pid}.calls`), v8.serialize(calls));
  });
}

function prepare(ask) {
  let offered = null;
  globalThis.__kaiOffer = (thunk) => {
    offered = thunk;
  };
  const { exit } = process;
  const { openSync, writeSync } = fs;
  const stream = openSync(ask.out, "a");
  const say = (message) => writeSync(stream, `${JSON.stringify(message)}\n`);
  globalThis.__kaiAnswer = async () => {
    await evaluate(offered(), ask, say);
    exit(0);
  };
}

async function evaluate(run, { calls, inputCount, textMs }, say) {
  const given = calls.map((each) => v8.deserialize(Buffer.from(each, "base64")));
  for (const name of ["log", "info", "warn", "error", "debug"]) console[name] = () => {};
  const until = performance.now() + textMs;
  for (const args of inputs(given, inputCount)) {
    if (performance.now() > until) break;
    // What hangs has said before what it hangs on.
    say({ input: inspect(args, SHOWN).slice(1, -1).trim().slice(0, 160) });
    say({ outcome: await answer(run, args) });
  }
}

async function answer(run, args) {
  const own = v8.deserialize(v8.serialize(args));
  try {
    let got = run(...own);
    if (typeof got?.then === "function") got = await got;
    if (typeof got?.next === "function") got = Array.from({ length: 200 }, () => got.next());
    const text = `v${inspect(rounded(got), SHOWN)}`;
    const left = inspect(own, SHOWN);
    return left === inspect(args, SHOWN) ? text : `${text} leaving ${left}`;
  } catch (error) {
    if (error instanceof RangeError && /call stack/.test(error.message)) return "t";
    return `e${error?.constructor?.name ?? typeof error}`;
  }
}

/** Two ways to add up the same numbers may differ in the last digit, and in the sign of nothing. */
function rounded(value, level = 0) {
  if (typeof value === "number")
    return Number.isInteger(value) ? value + 0 : Number(value.toPrecision(9));
  if (Array.isArray(value) && level < 4) return value.map((one) => rounded(one, level + 1));
  return value;
}

// The same numbers in each process, so that all answer the same inputs.
function seeded(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const random = seeded(1);
const below = (count) => Math.floor(random() * count);

function shuffled(list) {
  const made = [...list];
  for (let at = made.length - 1; at > 0; at -= 1) {
    const other = below(at + 1);
    [made[at], made[other]] = [made[other], made[at]];
  }
  return made;
}

function inputs(calls, count) {
  const made = [...calls];
  const told = new Set(made.map((args) => inspect(args, SHOWN)));
  let last = calls;
  for (let round = 0; round < ROUNDS && last.length > 0 && made.length < count; round += 1) {
    const before = made.length;
    extend(made, told, last, count);
    // What a few inputs lead to is too little to tell by; then it is gone further from them.
    last = made.length < ENOUGH ? made.slice(before) : [];
  }
  return made;
}

function extend(made, told, last, count) {
  const rounds = last.map((args) =>
    shuffled(
      args.flatMap((value, at) =>
        others(value, 0)
          .slice(0, 40)
          .map((other) => args.with(at, other)),
      ),
    ),
  );
  for (const one of last.slice(0, 8)) {
    for (const other of last.slice(0, 8)) {
      if (one === other || one.length < 2 || one.length !== other.length) continue;
      const at = below(one.length);
      rounds.push([one.with(at, other[at])]);
    }
  }
  // A few of each call before many of one.
  for (let at = 0; rounds.some((round) => at < round.length); at += 1) {
    for (const round of rounds) {
      const args = round[at];
      if (args === undefined || made.length >= count) continue;
      const key = inspect(args, SHOWN);
      if (told.has(key)) continue;
      told.add(key);
      made.push(args);
    }
  }
}

function others(value, level) {
  if (level > 3) return [];
  if (typeof value === "boolean") return [!value];
  if (typeof value === "number") {
    const by = [value + 1, value - 1, 0, 1, -value, value * 2, value + 2 + below(11)];
    return Number.isInteger(value) ? by : [...by, value + 0.5, Math.round(value), value + 1e-3];
  }
  if (typeof value === "bigint") return [value + 1n, value - 1n, 0n];
  if (typeof value === "string") return texts(value);
  if (Array.isArray(value)) return lists(value, level);
  if (value instanceof Map || value instanceof Set) {
    return lists([...value], level).map((list) => new value.constructor(list));
  }
  if (
    typeof value === "object" &&
    value !== null &&
    Object.getPrototypeOf(value) === Object.prototype
  ) {
    return [
      ...Object.keys(value)
        .slice(0, 4)
        .flatMap((key) => {
          const { [key]: _, ...rest } = value;
          return [
            rest,
            ...others(value[key], level + 1)
              .slice(0, 3)
              .map((other) => ({ ...value, [key]: other })),
          ];
        }),
      {},
    ];
  }
  return [];
}

function texts(value) {
  const more = "abcxyzAEIOU 019.,-()";
  const made = ["", value + more[below(more.length)]];
  if (value === "") return made;
  const at = below(value.length);
  const other = below(value.length);
  const words = value.split(" ");
  return [
    ...made,
    value.slice(1),
    value.slice(0, -1),
    value.slice(0, at) + value.slice(at + 1),
    value + value[at],
    [...value].reverse().join(""),
    [...value].map((c) => (c === c.toUpperCase() ? c.toLowerCase() : c.toUpperCase())).join(""),
    value.slice(0, at) + value[other] + value.slice(at + 1),
    ...(words.length > 1 ? [shuffled(words).join(" "), words.slice(0, -1).join(" ")] : []),
    value + value,
    value.replace(/\d+/g, (digits) => String(Number(digits.slice(0, 15)) + 1 + below(5))),
  ];
}

function lists(value, level) {
  if (value.length === 0) return [];
  const at = below(value.length);
  const made = [
    [],
    value.slice(1),
    value.slice(0, -1),
    value.toSpliced(at, 1),
    [...value, value[at]],
    value.toReversed(),
    shuffled(value),
    value.toSorted(),
    [...value, ...value],
  ];
  for (const each of new Set([0, value.length - 1, at])) {
    for (const other of others(value[each], level + 1).slice(0, 7)) {
      made.push(value.with(each, other), [...value, other]);
    }
  }
  return made;
}
