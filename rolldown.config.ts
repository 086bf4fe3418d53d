import { defineConfig, type RolldownOptions } from "rolldown";

/**
 * The programs, each as one file. `tsc -b` writes `.js` into each package's `dist`, and a bundle ends
 * otherwise, so neither overwrites the other.
 */
const programs: readonly RolldownOptions[] = [
  // CommonJS, because V8 keeps a code cache of a script and not of a module: see tools/warm.mjs.
  program("packages/cli/src/main.ts", "packages/cli/dist/dev.cjs", "cjs"),
  // The agent is copied into cells, and has to need nothing beside it.
  program("packages/cell/src/agent/main.ts", "packages/cell/dist/agent.mjs", "esm"),
  program("packages/model/src/scripted-main.ts", "packages/model/dist/scripted.mjs", "esm"),
];

export default defineConfig([...programs]);

function program(input: string, file: string, format: "cjs" | "esm"): RolldownOptions {
  return {
    input,
    platform: "node",
    // Native code, and what one kind of cell alone needs: found through node_modules at run time.
    external: ["libsql", "@kubernetes/client-node"],
    // The parser's own loader has one, which is used for modules that are loaded into it, and not here.
    checks: { eval: false },
    resolve: { conditionNames: ["source", "node", "import", "default"] },
    transform: { target: "node20.19" },
    output: {
      file,
      format,
      codeSplitting: false,
      // A script from V8's cache has nothing to import by.
      dynamicImportInCjs: false,
      sourcemap: true,
      // Less to read makes a faster start. Names stay, for stack traces.
      minify: { compress: true, mangle: false, codegen: true },
    },
  };
}
