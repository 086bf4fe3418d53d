// Random changes of tokens, as a slip of the hand would make them. They are of no language, and do not
// look at what Kai can undo.
const TOKEN =
  /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_$][\w$]*|\d[\w.]*|===|!==|\*\*|\/\/|<<|>>|&&|\|\||[<>=!+\-*/%&|^]=|\+\+|--|=>|[^\s\w]/g;
const OPERATORS = ["+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^"];
const WORDS = new Set(
  `and or not in is if else elif for while return def class import from function const let var new
  typeof try except catch finally raise throw with as lambda pass break continue yield switch case`
    .split(/\s+/)
    .filter(Boolean),
);

/** A text with one fault in it: `{ file, line, how, text }`, or null where the place drawn has none. */
export function tampered(texts, random) {
  const { file, text } = weighed(texts, random);
  const lines = text.split("\n");
  const at = Math.floor(random() * lines.length);
  if (!isCode(lines[at])) return null;
  const ways = Object.entries(WAYS);
  const [how, change] = ways[Math.floor(random() * ways.length)];
  const changed = change([...lines], at, random);
  if (changed === null || changed.join("\n") === text) return null;
  return { file, line: at + 1, how, text: changed.join("\n") };
}

/** A long file has more faults. */
function weighed(texts, random) {
  let left = random() * texts.reduce((sum, { text }) => sum + text.length, 0);
  for (const each of texts) {
    left -= each.text.length;
    if (left < 0) return each;
  }
  return texts[0];
}

function isCode(line) {
  return line.trim().length > 2 && !/^\s*(#|\/\/|\*|\/\*|"""|'''|>>>|import |from )/.test(line);
}

function tokensOf(line) {
  return [...line.matchAll(TOKEN)].map((match) => ({ text: match[0], from: match.index }));
}

function isName({ text }) {
  return /^[A-Za-z_$]/.test(text) && !WORDS.has(text);
}

function drawn(list, random) {
  return list.length === 0 ? null : list[Math.floor(random() * list.length)];
}

function put(lines, at, token, text) {
  const line = lines[at];
  lines[at] = line.slice(0, token.from) + text + line.slice(token.from + token.text.length);
  return lines;
}

const WAYS = {
  "another name": (lines, at, random) => {
    const token = drawn(tokensOf(lines[at]).filter(isName), random);
    const near = lines
      .slice(Math.max(0, at - 12), at + 12)
      .flatMap(tokensOf)
      .filter(isName);
    const other = drawn(near, random);
    return token === null || other === null ? null : put(lines, at, token, other.text);
  },
  "another operator": (lines, at, random) => {
    const operators = tokensOf(lines[at]).filter(({ text }) => OPERATORS.includes(text));
    const token = drawn(operators, random);
    return token === null ? null : put(lines, at, token, drawn(OPERATORS, random));
  },
  "another word": (lines, at, random) => {
    const pairs = { and: "or", or: "and", "&&": "||", "||": "&&", "===": "!==", "!==": "===" };
    const more = { True: "False", False: "True", true: "false", false: "true", break: "continue" };
    const all = { ...pairs, ...more };
    const token = drawn(
      tokensOf(lines[at]).filter(({ text }) => Object.hasOwn(all, text)),
      random,
    );
    return token === null ? null : put(lines, at, token, all[token.text]);
  },
  "another number": (lines, at, random) => {
    const token = drawn(
      tokensOf(lines[at]).filter(({ text }) => /^\d+$/.test(text)),
      random,
    );
    const by = drawn([-1, 1, 2], random);
    return token === null ? null : put(lines, at, token, String(Number(token.text) + by));
  },
  "a token gone": (lines, at, random) => {
    const token = drawn(tokensOf(lines[at]), random);
    return token === null ? null : put(lines, at, token, "");
  },
  "a word more": (lines, at, random) => {
    const place = lines[at].search(/\b(if|while|return)\b.*\S/);
    const head = /\b(?:if|while|return)\b\s*\(?/.exec(lines[at]);
    if (place < 0 || head === null) return null;
    const end = head.index + head[0].length;
    const not = /:\s*$/.test(lines[at]) || lines.some((line) => /^def /.test(line)) ? "not " : "!";
    lines[at] = `${lines[at].slice(0, end)}${not}${lines[at].slice(end)}`;
    return random() < 0.5 ? lines : null;
  },
  "two things swapped": (lines, at, random) => {
    const list = /([\w.]+)(\s*,\s*)([\w.]+)/g;
    const match = drawn([...lines[at].matchAll(list)], random);
    if (match === null) return null;
    const [all, a, between, b] = match;
    return put(lines, at, { text: all, from: match.index }, b + between + a);
  },
  "a line gone": (lines, at) => {
    if (/[{:([,]\s*$/.test(lines[at])) return null;
    lines.splice(at, 1);
    return lines;
  },
  "two lines swapped": (lines, at) => {
    const next = lines[at + 1];
    if (next === undefined || !isCode(next) || indentOf(next) !== indentOf(lines[at])) return null;
    [lines[at], lines[at + 1]] = [next, lines[at]];
    return lines;
  },
  "a line from nearby": (lines, at, random) => {
    const near = lines.slice(Math.max(0, at - 15), at + 15).filter(isCode);
    const same = near.filter((line) => indentOf(line) === indentOf(lines[at]));
    const other = drawn(same, random);
    if (other === null) return null;
    lines[at] = other;
    return lines;
  },
};

function indentOf(line) {
  return line.length - line.trimStart().length;
}
