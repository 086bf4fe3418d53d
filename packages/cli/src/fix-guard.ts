import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync } from "node:fs";

/**
 * A process that outlives this one by a moment: once we are gone, in whatever way, it ends what we had
 * started, and removes what we had made.
 */
export type Guard = {
  /** The process group of something that we have started, and the end of it. */
  began(group: number): void;
  ended(group: number): void;
  /** A file that is made beside another for a moment. */
  aside(path: string): void;
  /** Has everything removed now. */
  close(): Promise<void>;
};

/** In a shell, because it has to be small and to start at once. `$1` is the directory to remove. */
const SCRIPT = `groups=' '
aside=
while IFS= read -r line; do
  case $line in
    +*) groups="$groups\${line#+} " ;;
    -*) case $groups in *" \${line#-} "*) groups="\${groups%% \${line#-} *} \${groups#* \${line#-} }" ;; esac ;;
    =*) aside=\${line#=} ;;
  esac
done
for group in $groups; do kill -KILL -- "-$group" 2>/dev/null; done
[ -z "$aside" ] || rm -f -- "$aside"
for try in 1 2 3 4 5; do
  rm -rf -- "$1" 2>/dev/null && break
  chmod -R u+rwx -- "$1" 2>/dev/null
  sleep 0.1
done
:`;

/** Starts a guard over a directory of this run's own, and then makes it: it is never there without one. */
export function openGuard(directory: string, path: string): Guard {
  const child = spawn("/bin/sh", ["-c", SCRIPT, "sh", directory], {
    cwd: "/",
    env: { PATH: path },
    // A session of its own: a terminal's signals to us are not for it.
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  mkdirSync(directory, { mode: 0o700 });
  const gone = once(child, "exit");
  gone.catch(() => undefined);
  // Whoever killed it has taken over what it was there for.
  child.stdin.on("error", () => undefined);
  const say = (line: string): void => {
    child.stdin.write(`${line}\n`);
  };
  return {
    began: (group) => say(`+${group}`),
    ended: (group) => say(`-${group}`),
    aside: (file) => {
      // A name with an end of line in it cannot be said; the next run finds it in the journal.
      if (!file.includes("\n")) say(`=${file}`);
    },
    close: async () => {
      child.stdin.end();
      await gone.catch(() => undefined);
      // It may have been ended before us, or never have begun.
      rmSync(directory, { recursive: true, force: true, maxRetries: 2 });
    },
  };
}
