import { execFileSync } from "node:child_process";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Result } from "@dev/protocol";
import { changes, type Taken, TREE_LIMITS, type TreeChange, takeTree } from "@dev/workspace";
import fc from "fast-check";

/** A small notation for trees: what is at each path; a directory is `null`, a symlink begins with `->`. */
export type Sketch = Readonly<Record<string, string | null>>;

/** What a test does to a tree; a step that cannot be done there is left out. */
export type Touch = {
  readonly path: readonly string[];
  readonly to: "file" | "program" | "private" | "directory" | "closed" | "symlink" | "nothing";
  readonly text: string;
};

export type Place = { readonly at: (name: string) => string; readonly clear: () => void };

export function place(): Place {
  const root = mkdtempSync(join(tmpdir(), "workspace-"));
  return {
    at: (name) => join(root, name),
    clear: () => {
      // Directories that may not be written in could not be emptied.
      execFileSync("chmod", ["-R", "u+rwX", root]);
      rmSync(root, { recursive: true });
    },
  };
}

export function draw(root: string, sketch: Sketch): void {
  mkdirSync(root, { recursive: true });
  for (const [path, what] of Object.entries(sketch)) {
    const full = join(root, path);
    mkdirSync(join(full, ".."), { recursive: true });
    if (what === null) mkdirSync(full, { recursive: true });
    else if (what.startsWith("->")) symlinkSync(what.slice(2), full);
    else writeFileSync(full, what);
  }
}

/** All that is in a tree, read by other means than the package's; content as hexadecimal. */
export function seen(root: string): Record<string, string> {
  const found: Record<string, string> = Object.create(null);
  const look = (prefix: string): void => {
    for (const name of readdirSync(join(root, prefix)).sort()) {
      const path = prefix + name;
      const stat = lstatSync(join(root, path));
      const mode = (stat.mode & 0o777).toString(8);
      if (stat.isSymbolicLink()) found[path] = `-> ${readlinkSync(join(root, path))}`;
      else if (stat.isDirectory()) {
        found[path] = `directory ${mode}`;
        look(`${path}/`);
      } else found[path] = `${mode} ${readFileSync(join(root, path)).toString("hex")}`;
    }
  };
  look("");
  return found;
}

export function touch(root: string, touches: readonly Touch[]): void {
  for (const { path, to, text } of touches) {
    const full = join(root, ...path);
    try {
      if (to !== "closed") rmSync(full, { recursive: true });
    } catch {
      // There was nothing, or it lies below what is no directory.
    }
    try {
      make(full, to, text);
    } catch {
      // There is no directory to make it in.
    }
  }
}

export async function take(
  place: { readonly at: (name: string) => string },
  limits: typeof TREE_LIMITS = TREE_LIMITS,
): Promise<Taken> {
  const options = { textPath: place.at("text"), limits, onProgress: () => undefined };
  return must(await takeTree(place.at("from"), place.at("tree"), options));
}

export async function compared(taken: Taken, tree: string): Promise<readonly TreeChange[]> {
  return must(await changes(taken.manifest, tree));
}

export function must<T>(result: Result<T>): T {
  if (result.ok) return result.value;
  throw new Error(`${result.fault.code}: ${result.fault.message} (${result.fault.subject})`);
}

const name: fc.Arbitrary<string> = fc.constantFrom(
  "a",
  "b",
  "a b",
  " lead",
  'say "hi"',
  "back\\slash",
  "new\nline",
  "tab\t",
  "größe",
  "𝄞",
  "__proto__",
  "-rf",
  "*",
  "a-",
  "n".repeat(200),
);

const line: fc.Arbitrary<string> = fc.constantFrom("one", "two", "three", "", "é\r", "\u{feff}x");

/** Text with and without its last newline; now and then bytes that are no text. */
const content: fc.Arbitrary<string> = fc.oneof(
  { weight: 8, arbitrary: fc.array(line, { maxLength: 12 }).map((lines) => lines.join("\n")) },
  { weight: 1, arbitrary: fc.constant("\0binary") },
);

const everything = ["file", "program", "private", "directory", "closed", "symlink", "nothing"];

export function touchesOf(kinds: readonly string[], maxLength: number): fc.Arbitrary<Touch[]> {
  const one = fc.record({
    path: fc.array(name, { minLength: 1, maxLength: 4 }),
    to: fc.constantFrom(...kinds),
    text: content,
  });
  return fc.array(one, { maxLength }) as fc.Arbitrary<Touch[]>;
}

export const touches: fc.Arbitrary<Touch[]> = touchesOf(everything, 20);

function make(full: string, to: Touch["to"], text: string): void {
  switch (to) {
    case "file":
    case "program":
    case "private":
      mkdirSync(join(full, ".."), { recursive: true });
      writeFileSync(full, text, { flag: "wx" });
      chmodSync(full, { file: 0o644, program: 0o755, private: 0o600 }[to]);
      return;
    case "directory":
      mkdirSync(full, { recursive: true });
      return;
    case "closed":
      if (lstatSync(full).isDirectory()) chmodSync(full, 0o700);
      return;
    case "symlink":
      // Loops, dangling ones, and ones that lead out.
      symlinkSync(text.includes("two") ? "/etc" : `../${text.slice(0, 9)}.`, full);
      return;
    case "nothing":
      return;
  }
}
