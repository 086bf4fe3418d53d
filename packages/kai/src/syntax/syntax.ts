import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { Language as Loaded, Parser } from "web-tree-sitter";
import { grammarOf, type Language, languageOf } from "./grammar.ts";
import { copied, parsed, type Source, sourceOf, treeJudge } from "./source.ts";
import { tokenSource } from "./token.ts";

/** Reads files into trees; it holds the parsers, which are loaded when the first file needs them. */
export type Syntax = {
  /** The same text of the same file gives the same source, as long as it is among the last read. */
  read(file: string, text: string): Promise<Source>;
  close(): void;
};

/** From this package, wherever it lies, and also out of a bundle that holds it. */
const require = createRequire(
  createRequire(import.meta.url).resolve("@dev/kai/worker/kai_worker.py"),
);

/** A file longer than this is read as tokens: no person wrote it, and its tree would be too large. */
const TREE_CHARS_MAX = 1_000_000;
const SOURCES_MAX = 256;

/** Opens the parser's own code; grammars come later, each with its first file. */
export async function openSyntax(): Promise<Syntax> {
  const wasmBinary = await readFile(require.resolve("web-tree-sitter/web-tree-sitter.wasm"));
  await Parser.init({ wasmBinary });
  const parsers = new Map<Language, Promise<{ parser: Parser; loaded: Loaded }>>();
  const sources = new Map<string, { readonly text: string; readonly source: Source }>();
  let closed = false;

  async function make(file: string, text: string): Promise<Source> {
    const language = languageOf(file);
    if (language === "other" || text.length > TREE_CHARS_MAX) return tokenSource(file, text);
    const opening = parsers.get(language) ?? open(language);
    parsers.set(language, opening);
    const { parser, loaded } = await opening;
    if (closed) throw new Error("a file is read after the syntax was closed");
    const grammar = grammarOf(language);
    const tree = parsed(parser, text, null);
    try {
      const root = copied(tree, loaded, grammar);
      return sourceOf(file, language, text, grammar, root, (piece) =>
        treeJudge(parser, text, piece, grammar),
      );
    } finally {
      tree.delete();
    }
  }

  return {
    async read(file, text) {
      const held = sources.get(file);
      if (held !== undefined && held.text === text) return held.source;
      const source = await make(file, text);
      sources.delete(file);
      sources.set(file, { text, source });
      const [oldest] = sources.keys();
      if (sources.size > SOURCES_MAX && oldest !== undefined) sources.delete(oldest);
      return source;
    },
    close() {
      closed = true;
      sources.clear();
      for (const opening of parsers.values()) void opening.then(({ parser }) => parser.delete());
      parsers.clear();
    },
  };
}

async function open(language: Language): Promise<{ parser: Parser; loaded: Loaded }> {
  const folder = dirname(require.resolve("@vscode/tree-sitter-wasm/package.json"));
  const bytes = await readFile(join(folder, "wasm", `tree-sitter-${language}.wasm`));
  const loaded = await Loaded.load(bytes);
  const parser = new Parser();
  parser.setLanguage(loaded);
  return { parser, loaded };
}
