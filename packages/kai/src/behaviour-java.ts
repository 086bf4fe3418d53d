import { copyFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Behaviours, Target } from "./behaviour.ts";
import type { Copy } from "./copy.ts";
import type { Command } from "./report/report.ts";
import { field, within } from "./syntax/piece.ts";

/** What a run of the tests with the variants in it needs. */
export type JavaRun = {
  readonly target: Target;
  readonly copy: Copy;
  readonly place: string;
  readonly programs: string;
  readonly command: Command;
  readonly run: (env: Readonly<Record<string, string>>) => Promise<boolean>;
};

/**
 * Puts what each candidate makes of the method beside it, as methods of the same class, and has the
 * command, which compiles them, run the tests once. Null where the method cannot be written so.
 */
export async function javaBehaviours(given: JavaRun): Promise<Behaviours | null> {
  const { target, copy, place, programs, command, run } = given;
  const made = withVariants(target);
  if (made === null) return null;
  await writeFile(join(copy.dir, target.source.file), made);
  // The compiler looks for what is not named where it runs.
  await copyFile(join(programs, "KaiNote.java"), join(copy.dir, command.cwd, "KaiNote.java"));
  const said = join(place, "said.txt");
  if (!(await run({ KAI_SAID: said }))) return null;
  return read(await readFile(said, "utf8").catch(() => ""), target.texts.length);
}

function withVariants({ source, site, texts, ends }: Target): string | null {
  const [first = ""] = texts;
  const [firstEnd = 0] = ends;
  const body = field(site.piece, "body");
  const parameters = field(site.piece, "parameters");
  const own = field(site.piece, "name");
  if (body === null || parameters === null || own === null) return null;
  // Only a class without a package is found by a helper that has none.
  if (/^\s*package\s/m.test(source.text) || site.piece.type !== "method_declaration") return null;
  const names = [...within(parameters)].flatMap((piece) =>
    piece.type === "formal_parameter" ? [field(piece, "name")] : [],
  );
  if (names.length === 0 || names.some((name) => name === null)) return null;
  const args = names.map((name) => source.text.slice(name?.from ?? 0, name?.to ?? 0));
  const head = source.text.slice(site.from, body.from);
  const isStatic = /\bstatic\b/.test(head);
  const type = site.qualified.split(".").slice(0, -1).join(".");
  if (type === "" || texts.some((text) => text.slice(site.from, body.from) !== head)) return null;
  const self = isStatic ? "null" : "this";
  const note = `KaiNote.note(${self}, ${type}.class, "${site.name}", ${args.join(", ")});`;
  const calls = new RegExp(`(?<![\\w$])${site.name}(?=\\s*\\()`, "g");
  const variants = texts.map((text, at) =>
    text.slice(site.from, ends[at]).replaceAll(calls, `${site.name}__kai${at}`),
  );
  const plain = variants.map((text) => text.replace(/^\s*@Override\s*/, ""));
  const inside = body.from + 1;
  const noted = first.slice(0, inside) + note + first.slice(inside, firstEnd);
  return `${noted}\n${plain.join("\n")}\n${first.slice(firstEnd)}`;
}

function read(said: string, count: number): Behaviours | null {
  const inputs: string[] = [];
  let calledCount = 0;
  const outcomes: string[][] = Array.from({ length: count }, () => []);
  for (const line of said.split("\n")) {
    if (line.startsWith("c")) calledCount = Number(line.slice(1));
    if (line.startsWith("i")) inputs.push(line.slice(1).replace(/^\[|\]$/g, ""));
    const [, at, outcome] = /^(\d+) (.*)$/.exec(line) ?? [];
    if (outcome !== undefined) outcomes[Number(at)]?.push(outcome);
  }
  if (inputs.length === 0 || outcomes.every((list) => list.length === 0)) return null;
  return {
    inputs,
    calledCount,
    outcomes: outcomes.map((list) => inputs.map((_, at) => list[at] ?? "u")),
  };
}
