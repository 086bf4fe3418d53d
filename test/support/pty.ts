import { spawn } from "node:child_process";
import { DEV, type Desk } from "./dev.ts";

/** `dev` on a terminal of its own, as a person sees it and types to it. */
export type Screen = {
  /** All that the terminal has shown so far, to the byte. */
  readonly output: () => string;
  /** Waits for a text in what has been shown since the last wait ended; what was shown up to it. */
  readonly sees: (text: string) => Promise<string>;
  readonly type: (keys: string) => void;
  /** Everything shown, once the shell around it is done: see `endOf`. */
  readonly ended: Promise<string>;
};

export const CTRL_C = "\x03";
export const CTRL_D = "\x04";

const WAIT_LIMIT_MS = 20_000;

/** Starts `dev` on a pseudo-terminal; afterwards the shell around it says how it left that. */
export function openScreen(
  desk: Desk,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Screen {
  const command = [process.execPath, DEV, ...args].map(quoted).join(" ");
  const line = `trap : INT; stty cols 100 rows 40; ${command}; echo "CODE=$?"; stty -a; printf 'END\\n'`;
  const child = spawn("script", ["-qec", line, "/dev/null"], {
    cwd: desk.project,
    env: {
      PATH: process.env.PATH ?? "",
      HOME: desk.root,
      DEV_HOME: desk.home,
      TERM: "xterm-256color",
      SHELL: "/bin/sh",
      ...env,
    },
    stdio: ["pipe", "pipe", "inherit"],
  });
  let output = "";
  let seen = 0;
  let look = (): void => {};
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    look();
  });
  const ended = new Promise<string>((resolve) => child.once("close", () => resolve(output)));
  return {
    output: () => output,
    ended,
    type: (keys) => child.stdin.write(keys),
    sees: (text) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          child.kill("SIGKILL");
          reject(new Error(`it never showed ${JSON.stringify(text)}: ${JSON.stringify(output)}`));
        }, WAIT_LIMIT_MS);
        look = () => {
          const at = output.indexOf(text, seen);
          if (at < 0) return;
          clearTimeout(timer);
          look = () => {};
          const before = output.slice(seen, at + text.length);
          seen = at + text.length;
          resolve(before);
        };
        look();
      }),
  };
}

/** How `dev` ended, and whether it left its terminal as it found it. */
export function endOf(output: string): { readonly code: number; readonly isSane: boolean } {
  const code = Number(/CODE=(\d+)/.exec(output)?.[1]);
  const modes = output.slice(output.lastIndexOf("CODE=")).split(/[\s;]+/);
  const isSane = ["icanon", "echo", "isig", "icrnl", "opost"].every((mode) => modes.includes(mode));
  return { code, isSane };
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
