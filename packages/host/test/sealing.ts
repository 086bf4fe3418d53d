import { execFileSync } from "node:child_process";
import { fileURLToPath, pathToFileURL } from "node:url";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));

/** Seals the core if its sources have changed since it was last done, as the build does. */
export function sealCore(): void {
  execFileSync(process.execPath, ["tools/seal.mjs"], { cwd: ROOT, stdio: "pipe" });
}

/** The guest of the file `planted-guest.ts`, sealed, which is done anew only when it has changed. */
export function sealPlanted(): URL {
  const out = `${ROOT}.cache/planted.wasm`;
  const guest = fileURLToPath(new URL("planted-guest.ts", import.meta.url));
  const args = ["tools/seal.mjs", "--entry", guest, "--out", out];
  execFileSync(process.execPath, args, { cwd: ROOT, stdio: "pipe" });
  return pathToFileURL(out);
}
