import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { pathToFileURL } from "node:url";
import { deserialize } from "node:v8";
import { javaBehaviours } from "./behaviour-java.ts";
import { type Candidate, edited } from "./candidate.ts";
import { Copy, remove, type Tree } from "./copy.ts";
import { execute } from "./execution.ts";
import type { Command } from "./report/report.ts";
import type { Shell, Start } from "./shell.ts";
import { field } from "./syntax/piece.ts";
import type { FunctionSite, Source } from "./syntax/source.ts";
import { pytestCommand } from "./trial/pytest.ts";
import { unwrapped } from "./trial/words.ts";
import { startIn } from "./verify.ts";

/**
 * What a function does under each of several candidates, on the inputs that the tests give it and on
 * others like them. An outcome begins with `v` for a value and what it left in its arguments, `e` for
 * what it raised, `t` where it did not end; `u` is not known.
 */
export type Behaviours = {
  readonly inputs: readonly string[];
  /** How many of the inputs, the first ones, are what the tests themselves give. */
  readonly calledCount: number;
  /** In order of the candidates, each in order of the inputs. */
  readonly outcomes: readonly (readonly string[])[];
};

export const BEHAVIOUR_LIMITS = {
  callCount: 120,
  inputCount: 300,
  callMs: 60,
  textMs: 1_500,
  /** Beside the time of the tests themselves, for all texts. */
  extraMs: 6_000,
} as const;

export type BehaviourOptions = {
  readonly shell: Shell;
  readonly tree: Tree;
  /** A directory of this comparison's own, made and removed. */
  readonly place: string;
  /** The directory that holds the programs that run beside the tests. */
  readonly programs: string;
  readonly command: Command;
  readonly env: Readonly<Record<string, string>>;
  readonly sources: readonly Source[];
  readonly baseMs: number;
  readonly nowMs: () => number;
};

/**
 * Runs the tests once more with the first of the candidates, which they pass, and notes what its function
 * is called with. Null where the candidates are not of one function, or its calls cannot be had.
 */
export async function behaviours(
  candidates: readonly Candidate[],
  options: BehaviourOptions,
  signal: AbortSignal,
): Promise<Behaviours | null> {
  const found = targetOf(candidates, options.sources);
  if (found === null) return null;
  try {
    const copy = await Copy.make(options.tree, join(options.place, "copy"), signal);
    if (found.source.language === "python") return await python(found, copy, options, signal);
    if (found.source.language === "javascript") return await node(found, copy, options, signal);
    if (found.source.language === "java") return await java(found, copy, options, signal);
    return null;
  } finally {
    await remove(options.place);
  }
}

export type Target = {
  readonly source: Source;
  readonly site: FunctionSite;
  /** The file as each candidate would have it. */
  readonly texts: readonly string[];
  /** Where the function ends in each of them. */
  readonly ends: readonly number[];
};

/** The one outermost named function that all candidates are in. */
function targetOf(candidates: readonly Candidate[], sources: readonly Source[]): Target | null {
  const [first] = candidates;
  const source = sources.find(({ file }) => file === first?.site.file);
  if (first === undefined || source === undefined) return null;
  const holds = (site: FunctionSite): boolean =>
    candidates.every(({ edits }) =>
      edits.every(
        ({ file, from, to }) => file === source.file && site.from <= from && to <= site.to,
      ),
    );
  const site = source.functions.find(holds);
  if (site === undefined) return null;
  const texts = candidates.map(({ edits }) => edited(source.text, source.file, edits));
  const ends = texts.map((text) => site.to + text.length - source.text.length);
  return { source, site, texts, ends };
}

async function python(
  { source, site, texts }: Target,
  copy: Copy,
  options: BehaviourOptions,
  signal: AbortSignal,
): Promise<Behaviours | null> {
  const { place, programs, env, command } = options;
  const argv = pytestCommand(command, "kai_behaviour");
  if (argv === null) return null;
  const [out, plan] = [join(place, "said.json"), join(place, "plan.json")];
  const path = join(copy.dir, source.file);
  const { callCount, inputCount, callMs, textMs } = BEHAVIOUR_LIMITS;
  const limits = { callCount, inputCount, callMs, textMs };
  const { name, qualified, firstLine, lastLine } = site;
  const told = { root: copy.dir, path, name, qualified, firstLine, lastLine, texts, out };
  await writeFile(plan, JSON.stringify({ ...told, ...limits }));
  await writeFile(path, texts[0] ?? "");
  const start = startIn(copy.dir, place, { argv, cwd: command.cwd }, env);
  const pythonPath = [programs, env.PYTHONPATH].filter((part) => part).join(":");
  const own = { KAI_BEHAVIOUR: plan, PYTHONPATH: pythonPath, PYTHONHASHSEED: "0" };
  if (!(await ran({ ...start, env: { ...start.env, ...own } }, texts.length, options, signal))) {
    return null;
  }
  const said = await readJson(out);
  return behavioursIn(said, texts.length);
}

async function node(
  { source, site, texts }: Target,
  copy: Copy,
  options: BehaviourOptions,
  signal: AbortSignal,
): Promise<Behaviours | null> {
  const { place, programs, env, command, shell, nowMs } = options;
  const [program = ""] = unwrapped(command.argv);
  // Only what is at the top of its module can be had from outside of the tests.
  if (!/^(.*\/)?node(js)?$/.test(program) || site.qualified !== site.name) return null;
  const offers = texts.map((text) => instrumented(text, site));
  const [first] = offers;
  if (first === undefined || first === null) return null;
  const [heard, path] = [join(place, "heard"), join(copy.dir, source.file)];
  await mkdir(heard);
  await writeFile(path, first.noting);
  const start = startIn(copy.dir, place, command, env);
  const preloaded = join(programs, "node_behaviour.cjs");
  const preload = `--require ${JSON.stringify(preloaded)}`;
  const nodeOptions = env.NODE_OPTIONS ? `${env.NODE_OPTIONS} ${preload}` : preload;
  const own = { KAI_BEHAVIOUR: heard, NODE_OPTIONS: nodeOptions };
  if (!(await ran({ ...start, env: { ...start.env, ...own } }, 0, options, signal))) return null;
  const calls = await callsIn(heard);
  if (calls.length === 0) return null;
  const { inputCount, textMs } = BEHAVIOUR_LIMITS;
  const said = await Promise.all(
    texts.map(async (_, at) => {
      const offer = offers[at];
      if (offer === undefined || offer === null) return [];
      const file = join(
        copy.dir,
        posix.dirname(source.file),
        posix.basename(source.file).replace(/(\.[cm]?js)$/, `.kai${at}$1`),
      );
      const out = join(place, `said${at}.jsonl`);
      await writeFile(file, offer.offering);
      const ask = join(place, `ask${at}.json`);
      await writeFile(ask, JSON.stringify({ calls, out, inputCount, textMs }));
      // As a module that is imported, so that it does not take itself for the program.
      const load = `await import(${JSON.stringify(pathToFileURL(file).href)}); await __kaiAnswer();`;
      const flags = ["--no-warnings", "--require", preloaded, "--input-type=module", "-e", load];
      const alone = startIn(copy.dir, place, { argv: [program, ...flags], cwd: command.cwd }, env);
      const deadlineMs = textMs + BEHAVIOUR_LIMITS.extraMs / 4;
      const its = { ...alone, env: { ...alone.env, KAI_ANSWER: ask } };
      await execute(shell, its, deadlineMs, nowMs, signal);
      return linesOf(await readFile(out, "utf8").catch(() => ""));
    }),
  );
  return merged(said, calls.length);
}

async function java(
  target: Target,
  copy: Copy,
  options: BehaviourOptions,
  signal: AbortSignal,
): Promise<Behaviours | null> {
  const { place, programs, command, env } = options;
  const start = startIn(copy.dir, place, command, env);
  const run = (own: Readonly<Record<string, string>>): Promise<boolean> =>
    ran({ ...start, env: { ...start.env, ...own } }, target.texts.length, options, signal);
  return javaBehaviours({ target, copy, place, programs, command, run });
}

type Offer = { readonly noting: string; readonly offering: string };

/** A text whose function says what it is called with, and one that offers the function. */
function instrumented(text: string, site: FunctionSite): Offer | null {
  const offering = `${text}\n;globalThis.__kaiOffer?.(() => ${site.name});\n`;
  const body = field(site.piece, "body");
  const parameters = field(site.piece, "parameters") ?? field(site.piece, "parameter");
  if (body === null || parameters === null) return null;
  const isArrow = site.piece.type === "arrow_function";
  const names = text.slice(parameters.from, parameters.to).replace(/^\(|\)$/g, "");
  // An arrow has no `arguments` of its own; its parameters say the same where they are plain names.
  if (isArrow && !/^[\w$\s,]*$/.test(names)) return null;
  const given = isArrow ? `[${names}]` : "arguments";
  const note = `globalThis.__kaiCall?.(${given})`;
  const [before, inside, after] = [
    text.slice(0, body.from),
    text.slice(body.from, body.to),
    text.slice(body.to),
  ];
  if (inside.startsWith("{")) {
    return { noting: `${before}{${note};${inside.slice(1)}${after}`, offering };
  }
  return isArrow ? { noting: `${before}(${note}, ${inside})${after}`, offering } : null;
}

async function ran(
  start: Start,
  textCount: number,
  { shell, baseMs, nowMs }: BehaviourOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const { extraMs, textMs } = BEHAVIOUR_LIMITS;
  const deadlineMs = baseMs * 3 + extraMs + textCount * textMs;
  const { kind } = await execute(shell, start, deadlineMs, nowMs, signal);
  return kind === "ran";
}

async function callsIn(folder: string): Promise<readonly string[]> {
  const calls: string[] = [];
  for (const name of (await readdir(folder)).sort()) {
    const bytes = await readFile(join(folder, name));
    try {
      const list: unknown = deserialize(bytes);
      if (!Array.isArray(list)) continue;
      for (const each of list) {
        if (each instanceof Uint8Array) calls.push(Buffer.from(each).toString("base64"));
      }
    } catch {
      // Whoever wrote it was ended in the middle.
    }
  }
  return [...new Set(calls)].slice(0, BEHAVIOUR_LIMITS.callCount);
}

type Line = { readonly input?: unknown; readonly outcome?: unknown };

function linesOf(text: string): readonly Line[] {
  return text.split("\n").flatMap((line) => {
    try {
      return line.startsWith("{") ? [JSON.parse(line) as Line] : [];
    } catch {
      return [];
    }
  });
}

/** An input with no outcome after it was not come back from. */
function merged(said: readonly (readonly Line[])[], calledCount: number): Behaviours | null {
  const lists = said.map((lines) => {
    const inputs: string[] = [];
    const outcomes: string[] = [];
    for (const { input, outcome } of lines) {
      if (typeof input === "string") {
        inputs.push(input);
        outcomes.push("t");
      } else outcomes[outcomes.length - 1] = String(outcome);
    }
    return { inputs, outcomes };
  });
  const longest = lists.reduce((a, b) => (b.inputs.length > a.inputs.length ? b : a), {
    inputs: [] as string[],
    outcomes: [] as string[],
  });
  if (longest.inputs.length === 0) return null;
  return {
    inputs: longest.inputs,
    calledCount,
    outcomes: lists.map(({ outcomes }) => longest.inputs.map((_, at) => outcomes[at] ?? "u")),
  };
}

async function readJson(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, "utf8"));
  } catch {
    // The tests ended before it was written, or wrote over it.
    return null;
  }
}

function behavioursIn(said: unknown, count: number): Behaviours | null {
  if (typeof said !== "object" || said === null) return null;
  const { inputs, outcomes, called } = said as Readonly<Record<string, unknown>>;
  if (!Array.isArray(inputs) || !Array.isArray(outcomes)) return null;
  if (inputs.length === 0 || outcomes.length !== count) return null;
  return {
    inputs: inputs.map(String),
    calledCount: Number(called),
    outcomes: outcomes.map((list: unknown) => (Array.isArray(list) ? list.map(String) : [])),
  };
}
