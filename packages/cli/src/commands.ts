import type { Flag } from "./flag.ts";

/** How a command is written. */
export type Shape = {
  readonly flags: readonly Flag[];
  /** Flags that are read otherwise, or said otherwise, than for the other commands. */
  readonly own?: Readonly<Partial<Record<Flag, readonly [string, string]>>>;
  /** Whether all words stand after `--`: they are another program's. */
  readonly isCommand?: boolean;
  /** What the words after the flags are, for the usage line. */
  readonly words: string;
  readonly wordCount: { readonly least: number; readonly most: number };
  readonly summary: string;
};

/** Every command, as `dev help` shows it. */
export const COMMANDS: Readonly<Record<string, Shape>> = {
  exec: {
    flags: ["directory", "model", "mode", "cell", "image", "json"],
    words: "PROMPT",
    wordCount: { least: 1, most: 1 },
    summary: "do a task and say how it went; `-` reads the prompt from stdin",
  },
  fix: {
    flags: ["directory", "max", "budget", "timeout", "mode", "no-model", "json"],
    own: {
      mode: [
        "--mode WHO",
        `who decides where there is a choice (default: kai where a decision service is
configured, else rule)
rule   rules alone
kai    a decision service`,
      ],
    },
    isCommand: true,
    words: "-- COMMAND…",
    wordCount: { least: 1, most: Number.POSITIVE_INFINITY },
    summary: "bring a failing test command to pass, or say that it did not",
  },
  resume: {
    flags: ["mode", "image", "json"],
    words: "ID [PROMPT]",
    wordCount: { least: 1, most: 2 },
    summary: "go on where a session stopped, or give it another prompt",
  },
  shell: {
    flags: [],
    words: "ID [-- COMMAND…]",
    wordCount: { least: 1, most: Number.POSITIVE_INFINITY },
    summary: "open a terminal in a session's cell",
  },
  sessions: { flags: ["json"], words: "", wordCount: none(), summary: "list sessions" },
  ledger: {
    flags: ["json"],
    words: "ID",
    wordCount: one(),
    summary: "show every action of a session, with its life",
  },
  diff: {
    flags: ["json"],
    words: "ID [FROM [TO]]",
    wordCount: { least: 1, most: 3 },
    summary: "show what a session changed in a workspace of its own",
  },
  apply: {
    flags: ["json"],
    words: "ID",
    wordCount: one(),
    summary: "bring those changes into the directory that they were made for",
  },
  rewind: {
    flags: ["list", "json"],
    words: "ID [CHECKPOINT]",
    wordCount: { least: 1, most: 2 },
    summary: "set a workspace back to a checkpoint, or list what there is",
  },
  fork: {
    flags: ["json"],
    words: "ID [CHECKPOINT]",
    wordCount: { least: 1, most: 2 },
    summary: "begin another session from a checkpoint of one",
  },
  export: {
    flags: ["json"],
    words: "ID FILE.tar [CHECKPOINT]",
    wordCount: { least: 2, most: 3 },
    summary: "write a session's workspace to a tar file",
  },
  import: {
    flags: ["directory", "model", "json"],
    words: "FILE.tar",
    wordCount: one(),
    summary: "begin a session on what is in a tar file",
  },
  gc: {
    flags: ["json"],
    words: "",
    wordCount: none(),
    summary: "free the disk of snapshots that no session needs any more",
  },
  connect: {
    flags: ["server", "workspace", "name"],
    words: "",
    wordCount: none(),
    summary: "let a server's sessions work in directories of this machine",
  },
  doctor: {
    flags: ["directory", "json"],
    words: "",
    wordCount: none(),
    summary: "check this machine and the settings, and say what to mend",
  },
  help: {
    flags: [],
    words: "[COMMAND]",
    wordCount: { least: 0, most: 1 },
    summary: "show this, or one command's own",
  },
};

function none(): Shape["wordCount"] {
  return { least: 0, most: 0 };
}

function one(): Shape["wordCount"] {
  return { least: 1, most: 1 };
}
