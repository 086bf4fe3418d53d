/** A simple command of a line of shell. */
export type Simple = {
  readonly words: readonly string[];
  /** Whether a shell would take its words as they are: nothing is expanded, or redirected. */
  readonly plain: boolean;
  /** Whether all that a shell would expand in them is names of files. */
  readonly named: boolean;
  /** What stands before it; empty before the first. */
  readonly joint: string;
};

const lengthLimit = 20_000;

/** Parts a line of shell at `&&`, `||`, `;`, `|` and its ends of lines, and each command into its words. */
export function wordsOf(line: string): readonly Simple[] {
  if (line.length > lengthLimit) return [];
  const commands: Simple[] = [];
  let words: string[] = [];
  let word: string | null = null;
  let [plain, named, joint] = [true, true, ""];
  const end = (): void => {
    if (word !== null) words.push(word);
    word = null;
  };
  for (let at = 0; at < line.length; ) {
    const [token = ""] = next.exec(line.slice(at, at + tokenLimit)) ?? [line.charAt(at)];
    at += token.length;
    if (/^(?:&&|\|\|?|;|\n)/.test(token)) {
      end();
      if (words.length > 0) commands.push({ words, plain, named, joint });
      [words, plain, named, joint] = [[], true, true, token];
    } else if (/^\s+$/.test(token)) end();
    else {
      const text: string | null = unquoted(token);
      plain = plain && text !== null;
      named = named && (text !== null || globbed.test(token));
      word = (word ?? "") + (text ?? token);
    }
  }
  end();
  if (words.length > 0) commands.push({ words, plain, named, joint });
  return commands;
}

/**
 * The words of a line of shell in which nothing is special but `&&`, quotes and patterns of files: one
 * list for each command. Null where anything else is in it.
 */
export function simpleCommands(line: string): readonly (readonly string[])[] | null {
  const commands = wordsOf(line);
  const isWhole = !/^\s*&&|&&\s*(?:&&|$)/.test(line);
  const areSimple = commands.every(
    ({ named, joint }, at) => named && joint === (at === 0 ? "" : "&&"),
  );
  if (commands.length === 0 || !isWhole || !areSimple || endsJoined(line)) return null;
  return commands.map(({ words }) => words);
}

/** Whether a line goes on behind its last command. */
function endsJoined(line: string): boolean {
  return /(?:;|\||&|\n)\s*$/.test(line);
}

const globbed = /^[^$`<>(){}~!#&'"\\]*$/;
const tokenLimit = 4_000;
const next = /^(?:&&|\|\|?|;|\n|[^\S\n]+|'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\;&|]+|&)/s;

function unquoted(token: string): string | null {
  if (token.startsWith("'"))
    return token.length > 1 && token.endsWith("'") ? token.slice(1, -1) : null;
  if (token.startsWith('"')) {
    if (token.length < 2 || /[$`]/.test(token)) return null;
    return token.slice(1, -1).replaceAll(/\\(["\\$`])/g, "$1");
  }
  if (token.startsWith("\\")) return token.slice(1);
  return /[$`<>()*?[\]{}~!#&]/.test(token) ? null : token;
}
