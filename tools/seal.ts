import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { SourceMap, type SourceMapPayload } from "node:module";
import { isAbsolute, relative, sep } from "node:path";
import { type Plugin, type RolldownBuild, rolldown } from "rolldown";
import { closed } from "./closed.ts";
import { inlined, readEngine, runOnce } from "./engine.ts";
import { impurities, SHARED_STATE } from "./impurity.ts";

/** A guest sealed into one module, and what it was made of. */
export type Sealed = { readonly module: Uint8Array; readonly record: SealRecord };

/** The SHA-256 of a sealed module, and of everything that it was made from; paths are the tree's own. */
export type SealRecord = {
  readonly sha256: string;
  readonly engine: { readonly name: string; readonly version: string; readonly sha256: string };
  readonly sources: { readonly [path: string]: string };
};

/** What a guest offers its host: functions that take one text or none, and answer one. */
export const GUEST_FUNCTIONS = ["open", "step", "snapshot", "more", "restore"] as const;

/**
 * Bundles a guest, refuses it where it is not pure, runs it once, and writes the engine with what is
 * then in its memory as one module that imports nothing. `root` is the tree that the guest is in;
 * nothing of where that lies gets into the module.
 */
export async function seal(root: string, entry: string): Promise<Sealed> {
  const bundled = await bundle(root, entry);
  const [home = ""] = relative(root, entry)
    .split(sep)
    .join("/")
    .split(/\/[^/]*\/[^/]*$/);
  // Of what the core imports it is held to what it uses; of the core itself to all of it.
  const unused = refusals(bundled.whole, home).filter((each) => each.startsWith(CORE));
  const refused = new Set([...refusals(bundled.used, home), ...unused]);
  if (refused.size > 0) {
    throw new Error(`the core is not pure, and was not sealed:\n${[...refused].join("\n")}`);
  }
  const { name, version, sha256: engineSha256, module: pinned } = readEngine();
  const engine = inlined(pinned);
  const names = GUEST_FUNCTIONS.map((each) => `guest_${each}`);
  const globals = GUEST_FUNCTIONS.map((each) => `var guest_${each} = guest.${each};\n`);
  const image = runOnce(engine, bundled.script + globals.join(""), names);
  const module = closed(engine, image);
  const sources = bundled.paths.map((path): [string, string] => [
    relative(root, path).split(sep).join("/"),
    sha256(readFileSync(path)),
  ]);
  const record = {
    sha256: sha256(module),
    engine: { name, version, sha256: engineSha256 },
    sources: Object.fromEntries(sources.sort(([a], [b]) => (a < b ? -1 : 1))),
  };
  return { module, record };
}

const CORE = "  packages/core/";

type Bundle = {
  /** What is used, and with it what nothing uses yet. */
  readonly used: Text;
  readonly whole: Text;
  /** What is used as a script that makes one global, `guest`. */
  readonly script: string;
  /** Every file that was read. */
  readonly paths: readonly string[];
};

/** A bundle as an ES module, in which imports are seen, and where each of its lines comes from. */
type Text = { readonly code: string; readonly map: SourceMapPayload };

async function bundle(root: string, entry: string): Promise<Bundle> {
  const paths = new Set<string>();
  const listing: Plugin = {
    name: "listing",
    moduleParsed: ({ id }) => {
      if (isAbsolute(id)) paths.add(id);
    },
  };
  const built = async (treeshake: boolean): Promise<RolldownBuild> =>
    rolldown({
      cwd: root,
      input: entry,
      platform: "neutral",
      logLevel: "silent",
      resolve: { conditionNames: ["source", "import", "default"] },
      treeshake,
      plugins: [listing],
    });
  const [used, whole] = [await built(true), await built(false)];
  const asScript = await used.generate({ format: "iife", name: "guest", exports: "named" });
  const texts = [await readable(used), await readable(whole)] as const;
  await Promise.all([used.close(), whole.close()]);
  const [ofUsed, ofWhole] = texts;
  return { used: ofUsed, whole: ofWhole, script: asScript.output[0].code, paths: [...paths] };
}

async function readable(built: RolldownBuild): Promise<Text> {
  const { output } = await built.generate({ format: "esm", sourcemap: true, minify: false });
  const [{ code, map }] = output;
  if (map === null) throw new Error("a bundle without a map");
  return { code, map: { ...map, sourceRoot: "" } as SourceMapPayload };
}

/**
 * Impurities, each with the file and line that it was written in, where that is known, and its text. The
 * guest, which is what is in `home`, holds its session, and that is alone in its instance.
 */
function refusals({ code, map }: Text, home: string): readonly string[] {
  const origins = new SourceMap(map);
  const lines = code.split("\n");
  return impurities(code).flatMap((impurity) => {
    const [, line = "1", what = impurity] = impurity.match(/^(\d+): (.*)$/) ?? [];
    const text = lines[Number(line) - 1] ?? "";
    const origin = origins.findOrigin(Number(line), text.search(/\S/) + 1);
    // A map names its sources by the way to them from where a bundle would be written.
    const path = "fileName" in origin ? origin.fileName.replace(/^(\.\.\/)+/, "") : "";
    if (path.startsWith(`${home}/`) && what.startsWith(SHARED_STATE)) return [];
    const place = "fileName" in origin ? `${path}:${origin.lineNumber}` : "in the bundle";
    return [`  ${place}: ${what}: ${text.trim()}`];
  });
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
