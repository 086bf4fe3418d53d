import { cpSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { read } from "./dev.ts";

const SAMPLE = fileURLToPath(new URL("../../examples/sample", import.meta.url));

/** A copy of the sample project in which somebody has slipped, and a home with nothing in it. */
export type Slipped = { readonly project: string; readonly home: string };

/** Makes one in a directory. Its one other fault, which has more than one remedy, is mended on request. */
export function slipped(directory: string, other: "mended" | "left" = "mended"): Slipped {
  const root = mkdtempSync(join(directory, "slip-"));
  const project = join(root, "sample");
  const home = join(root, "home");
  mkdirSync(home, { mode: 0o700 });
  cpSync(SAMPLE, project, { recursive: true });
  write(project, "src/split.js", "index < rest", "index <= rest");
  if (other === "mended") {
    write(project, "src/money.js", "Number.parseInt(text, 10) < 0", 'text.trim().startsWith("-")');
  }
  return { project, home };
}

/** Puts one text for another in a file that has it. */
function write(project: string, file: string, old: string, text: string): void {
  const path = join(project, file);
  const before = read(path);
  if (!before.includes(old)) throw new Error(`${file} has no ${old}`);
  writeFileSync(path, before.replace(old, text));
}
