import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { CellSpec, Link } from "../src/vendor.ts";
import { directoryOf } from "../src/vendors/record.ts";
import {
  acquired,
  driverHere,
  linkOf,
  newId,
  noBubblewrap,
  optionsIn,
  processesOf,
  ran,
  specIn,
  temporary,
} from "./machine.ts";

const LIMIT_MS = 300_000;
/** How many there are at once; fewer where a machine is too small for them. */
const COUNT = Number(process.env.CELL_COUNT ?? 200);

test(
  `${COUNT} cells at once each run a command, none is lost, and nothing is left of them`,
  async (context) => {
    context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
    const base = temporary();
    const options = optionsIn(base);
    const { vendor } = driverHere("bubblewrap", options);
    const cells = Array.from({ length: COUNT }, () => ({ id: newId(), spec: specIn(base) }));
    const links = await Promise.all(
      cells.map(({ id, spec }) => linkOf((progress) => vendor.create(id, spec, progress))),
    );
    // All of them are up before the first is asked for anything.
    const said = await Promise.all(
      links.map((link, index) => ran(link, "sh", "-c", `echo ${index} > made; cat made; id -u`)),
    );
    expect(said.map(({ code, stdout }) => ({ code, stdout }))).toEqual(
      links.map((_, index) => ({ code: 0, stdout: `${index}\n1000\n` })),
    );
    const again = await Promise.all(cells.map(({ id, spec }) => levelOf(id, spec)));
    expect(again.every(({ link }, index) => link === links[index])).toBe(true);
    const gone = await Promise.all(cells.map(({ id }) => vendor.delete(id)));
    expect(gone).toEqual(cells.map(() => ({ ok: true, value: { kind: "gone" } })));
    for (const { id, spec } of cells) {
      expect(processesOf(id)).toEqual([]);
      expect(existsSync(directoryOf(join(options.home, "bubblewrap"), id).path)).toBe(false);
      expect(readdirSync(spec.workspace)).toEqual(["made"]);
    }
    expect(groupsOf(cells.map(({ id }) => id))).toEqual([]);

    async function levelOf(
      id: (typeof cells)[number]["id"],
      spec: CellSpec,
    ): Promise<{ link: Link }> {
      const { last } = await acquired((progress) => vendor.get(id, spec, progress));
      if (last.kind !== "ready") throw new Error(last.kind);
      return last;
    }
  },
  LIMIT_MS,
);

/** What control groups there still are of these cells. */
function groupsOf(ids: readonly string[]): readonly string[] {
  const root = "/sys/fs/cgroup";
  if (!existsSync(root)) return [];
  const names = new Set(ids.map((id) => `dev-${id}.1`));
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory() && names.has(entry.name))
    .map((entry) => join(entry.parentPath, entry.name));
}
