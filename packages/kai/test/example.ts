import { fix, noLedger, type Shell } from "@dev/kai";

/** Mends a directory in which `node --test` fails, and says how it went. */
export async function example(directory: string, scratch: string, shell: Shell): Promise<string> {
  const outcome = await fix(
    {
      shell,
      directory,
      cwd: ".",
      argv: ["node", "--test"],
      env: { PATH: process.env.PATH ?? "" },
      scratch,
      journal: `${scratch}/journal`,
      owner: String(process.pid),
      ledger: noLedger("example"),
      slotCount: 2,
      timeoutMs: 60_000,
      helpCount: 0,
      helper: null,
      nowMs: () => performance.now(),
      onProgress: () => {},
      onAside: () => {},
    },
    new AbortController().signal,
  );
  return outcome.kind;
}
