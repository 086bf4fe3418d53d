import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Action } from "@dev/protocol";
import { expect } from "vitest";
import type { Link } from "../src/vendor.ts";
import type { Probe } from "./escape.ts";
import { execAction, perform, ran } from "./machine.ts";

/** Puts a link in the directory's place and takes it away again, until there is a file `stop`. */
const SWAPS = `const fs = require("node:fs");
const move = (from, to) => { try { fs.renameSync(from, to); } catch { return false; } return true; };
for (let count = 0; !fs.existsSync("stop"); count++) {
  move("d", "aside");
  if (!move("evil", "d")) move("d", "made" + count);
  move("d", "evil");
  if (!move("aside", "d")) move("d", "made" + count);
}`;
const SETS_UP = `mkdir -p d /tmp/elsewhere && echo inside > d/f && echo outside > /tmp/elsewhere/f &&
ln -s /tmp/elsewhere evil`;
/** So often the file is read, at least. */
const READS = 200;

/** A path that was in the workspace when it was looked at, and is not when it is opened. */
export const RACE: Probe = [
  "a directory that a command swaps for a link while the agent walks it leads nowhere",
  async ({ link, spec }) => {
    expect(await ran(link, "sh", "-c", SETS_UP)).toMatchObject({ code: 0 });
    await perform(link, execAction(["node", "-e", SWAPS], { background: true }));
    const seen = new Set<string>();
    for (let count = 0; count < READS || seen.size < 2; count++) {
      seen.add(await readOf(link));
      if (count % 4 === 0)
        await perform(link, effect({ kind: "write", path: "d/w", text: "x", expect: "any" }));
    }
    await ran(link, "touch", "stop");
    expect(seen).toContain("inside");
    expect(seen).not.toContain("outside");
    expect((await ran(link, "ls", "/tmp/elsewhere")).stdout).toBe("f\n");
    expect(readFileSync(join(spec.workspace, "stop"), "utf8")).toBe("");
  },
];

function effect(op: Action["op"]): Action {
  return { ...execAction([]), op };
}

/** What the file says, or the code of the fault. */
async function readOf(link: Link): Promise<string> {
  const answer = await perform(link, effect({ kind: "read", path: "d/f", from: 0, to: 0 }));
  if (!answer.ok) throw new Error(answer.fault.message);
  const { outcome } = answer.value;
  if (outcome.kind === "failed") return outcome.fault.code;
  if (outcome.kind !== "ok" || outcome.result.kind !== "read") throw new Error(outcome.kind);
  return outcome.result.text.trim();
}
