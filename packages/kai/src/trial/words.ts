import { simpleCommands } from "../report/shell-words.ts";

export { simpleCommands };

/**
 * A command without a `timeout` in front of it, which would end a process that is to stay. Only such
 * options as are known are skipped; else the words are returned as they are.
 */
export function unclocked(argv: readonly string[]): readonly string[] {
  if (!/^(.*\/)?g?timeout$/.test(argv[0] ?? "")) return argv;
  let at = 1;
  while (
    /^(--foreground|--preserve-status|--verbose|-v|-[ks]\d*\w*|--\w[\w-]*=.*)$/.test(argv[at] ?? "")
  ) {
    // The signal and the time to kill after may be words of their own.
    at += /^-[ks]$/.test(argv[at] ?? "") ? 2 : 1;
  }
  return /^\d+(\.\d+)?[smhd]?$/.test(argv[at] ?? "") ? argv.slice(at + 1) : argv;
}

/** The command that `sh -c` would run, where it is one simple command; other commands as they are. */
export function unwrapped(argv: readonly string[]): readonly string[] {
  const [shell = "", flag, line] = argv;
  if (!/^(.*\/)?(ba|da)?sh$/.test(shell) || flag !== "-c" || argv.length !== 3)
    return unclocked(argv);
  const commands = simpleCommands(line ?? "");
  const [only] = commands ?? [];
  const isOne = commands?.length === 1 && only !== undefined && !/[*?[\]=]/.test(line ?? "");
  return isOne ? unclocked(only) : argv;
}
