import { IMAGE_COUNT_LIMIT, IMAGES_LIMIT_BYTES } from "./image.ts";

/** A flag of some command. */
export type Flag =
  | "directory"
  | "model"
  | "mode"
  | "cell"
  | "image"
  | "json"
  | "max"
  | "budget"
  | "timeout"
  | "no-model"
  | "list"
  | "server"
  | "workspace"
  | "name";

/** How each flag is written, and what it does. */
export const FLAG_TEXTS: Readonly<Record<Flag, readonly [string, string]>> = {
  directory: ["-C DIR", "work in this directory (default: the current one)"],
  model: ["-m PROVIDER/MODEL", "the model to use (default: `model` in the settings)"],
  mode: [
    "--mode MODE",
    `what needs no asking (on a terminal: ask; else: edits;
of \`resume\`: that of the session's last turn)
plan   only reads, and never asks
ask    reads; and commands in a cell of its own
edits  changes files; runs commands that something confines
full   anything`,
  ],
  cell: [
    "--cell KIND",
    `where it works (default: local)
local       in your directory itself
bubblewrap  in an isolated copy of it: see \`dev diff\`
gvisor      in a copy, with a kernel of its own
container   in a copy, in podman's container
runc        in a copy, in runc's container`,
  ],
  image: [
    "--image FILE",
    `give this image with the prompt; may be given more than once
(at most ${IMAGE_COUNT_LIMIT}, ${IMAGES_LIMIT_BYTES.toLocaleString("en-US")} bytes together)`,
  ],
  json: ["--json", "print JSON, one object a line"],
  max: ["--max N", "try at most so many answers of a model (default: 6)"],
  budget: ["--budget USD", "spend at most so much on a model (default: 1)"],
  timeout: ["--timeout S", "look for so many seconds (default: 60; with a model 600)"],
  "no-model": ["--no-model", "ask no model, whatever is configured"],
  server: ["--server URL", "the server (default: DEV_SERVER)"],
  workspace: [
    "--workspace [NAME=]DIR",
    `serve this directory, under this name (default: the current one, under its
own name); may be given more than once`,
  ],
  name: ["--name LABEL", "what this machine is called there (default: its host name)"],
  list: ["--list", "list what can be gone back to (as without a word)"],
};

const COMPACT =
  "The prompt `/compact`, or `/compact` and what to keep in mind, shortens the conversation";

const CHECKPOINTS = `A checkpoint is meant by its number in \`dev rewind ID --list\`, or by the first 8 or
more digits of its snapshot's id.`;

/** What `dev help COMMAND` says below the flags. */
export const NOTES: Readonly<Record<string, string>> = {
  fix: `Nothing is written in the directory but a fix that the whole command has confirmed.
Exit codes: 0 verified, 1 not fixed, 2 bad usage, 3 the command could not be run,
4 it already passes, 5 ambiguous: what passes does different things.`,
  connect: `It dials the server, and serves until it is interrupted. Sessions that work in one directory
share its files. Its token is in the file that DEV_TOKEN_FILE names, or in DEV_TOKEN.`,
  exec: `${COMPACT}\nof a session: see \`dev help resume\`.`,
  rewind: CHECKPOINTS,
  fork: `${CHECKPOINTS}\nWithout a word it is the newest.`,
  diff: `Without a word: all that the session has changed. With one: what has changed since that
checkpoint; with two: from the one to the other. ${CHECKPOINTS}`,
  export: `A name that is no UTF-8 cannot be in it, and is left out. ${CHECKPOINTS}`,
  resume: `${COMPACT};\nit does nothing else: the next prompt goes on from the summary.`,
};
