import { defineConfig, type RolldownOptions } from "rolldown";

/**
 * The programs. `tsc -b` writes `.js` into each package's `dist` and a bundle is `.mjs` there, so
 * neither overwrites the other.
 */
const programs: readonly RolldownOptions[] = [
  program("packages/cli/src/main.ts", "packages/cli/dist", "dev"),
  // The agent is copied into cells: it has to be one file, and to need nothing beside it.
  whole(program("packages/cell/src/agent/main.ts", "packages/cell/dist", "agent")),
  program("packages/model/src/scripted-main.ts", "packages/model/dist", "scripted"),
];

export default defineConfig([...programs]);

/** What a dynamic import loads becomes a chunk in `dist/<name>`: a command loads what it needs. */
function program(input: string, dir: string, name: string): RolldownOptions {
  return {
    input,
    platform: "node",
    // Native code, found through node_modules at run time.
    external: ["libsql", "@vscode/ripgrep"],
    resolve: { conditionNames: ["source", "node", "import", "default"] },
    transform: { target: "node20.19" },
    output: {
      dir,
      format: "esm",
      entryFileNames: `${name}.mjs`,
      chunkFileNames: `${name}/[name].mjs`,
      sourcemap: true,
      // Less to read makes a faster start. Names stay, for stack traces.
      minify: { compress: true, mangle: false, codegen: true },
    },
  };
}

function whole(options: RolldownOptions): RolldownOptions {
  return { ...options, external: [], output: { ...options.output, codeSplitting: false } };
}
