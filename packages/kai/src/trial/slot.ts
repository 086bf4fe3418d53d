import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { Copy, remove, type Tree } from "../copy.ts";
import type { Command } from "../report/report.ts";
import type { Start } from "../shell.ts";

/** A place where one trial runs at a time: a copy of the tree, and a directory for temporary files. */
export class Slot {
  readonly copy: Copy;
  readonly #place: string;
  readonly #env: Readonly<Record<string, string>>;

  private constructor(copy: Copy, place: string, env: Readonly<Record<string, string>>) {
    this.copy = copy;
    this.#place = place;
    this.#env = env;
  }

  /** Makes a slot in `place`, a directory that does not exist yet. */
  static async make(
    tree: Tree,
    place: string,
    env: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Slot> {
    await mkdir(join(place, "tmp"), { recursive: true });
    return new Slot(await Copy.make(tree, join(place, "tree"), signal), place, env);
  }

  get temporary(): string {
    return join(this.#place, "tmp");
  }

  /** How to start a command in the slot; what `env` names here goes before what the slot has. */
  start(
    command: Command,
    stdin: Start["stdin"],
    env: Readonly<Record<string, string>> = {},
  ): Start {
    const cwd = join(this.copy.dir, command.cwd);
    const own = {
      PWD: cwd,
      TMPDIR: this.temporary,
      // Two versions of a file may be of one size and of one second, which is all that is compared.
      PYTHONDONTWRITEBYTECODE: "1",
      HYPOTHESIS_STORAGE_DIRECTORY: join(this.temporary, "hypothesis"),
    };
    const all = { ...this.#env, ...own, ...env };
    return { argv: command.argv, cwd, env: all, stdin, writable: [this.#place] };
  }

  /** Makes it as new; only after the processes in it have ended. */
  async mend(): Promise<void> {
    await this.copy.mend();
    for (const name of await readdir(this.temporary)) await remove(join(this.temporary, name));
  }

  async close(): Promise<void> {
    await remove(this.#place);
  }
}
