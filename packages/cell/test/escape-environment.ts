import { expect } from "vitest";
import { VARIABLES } from "../src/vendors/environment.ts";
import { outsideRan, type Probe } from "./escape.ts";
import { ran } from "./machine.ts";

/** What holds besides for a cell that has an environment of its own. */
export const OWN_ENVIRONMENT: readonly Probe[] = [
  [
    "a command finds no file of the machine but the system's",
    async ({ link, outside }) => {
      const roots = outside.files.flatMap((file) => ["", "/proc/1/root"].map((at) => at + file));
      const { stdout } = await ran(link, "sh", "-c", `cat ${roots.join(" ")} 2>/dev/null`);
      expect(stdout).toBe("");
      expect(outsideRan(["cat", ...outside.files])).toContain(outside.canary);
      expect((await ran(link, "ls", "/")).stdout.trim().split("\n")).toEqual(
        expect.not.arrayContaining(["root", "boot", "srv", "mnt", "media", "sys"]),
      );
      expect((await ran(link, "ls", "/home", "/var")).stdout).toBe(
        "/home:\ncell\n\n/var:\ncell\ntmp\n",
      );
    },
  ],
  [
    "a command cannot reach a socket file of the machine",
    async ({ link, outside }) => {
      const connects = ["perl", "-MIO::Socket::UNIX", "-e"];
      const peer = `print IO::Socket::UNIX->new(Peer => "${outside.socketPath}") ? "yes" : "no"`;
      expect(outsideRan([...connects, peer])).toBe("yes");
      expect((await ran(link, ...connects, peer)).stdout).toBe("no");
    },
  ],
  [
    "the first process shows nothing of the machine's paths or variables",
    async ({ link, home, spec, outside }) => {
      const { stdout } = await ran(link, "sh", "-c", "cat /proc/1/environ /proc/1/cmdline");
      expect(stdout).toMatch(/bwrap|agent\.mjs/);
      for (const secret of [home, spec.workspace, outside.canary, "DEV_CANARY"]) {
        expect(stdout).not.toContain(secret);
      }
      const names = stdout.split("\0").filter((word) => /^\w+=/.test(word));
      const known = ["DEV_CELL", "PWD", "container", "HOSTNAME", ...Object.keys(VARIABLES)];
      expect(names.filter((word) => !known.includes(word.replace(/=.*/s, "")))).toEqual([]);
    },
  ],
  [
    "a command is nobody outside, whoever started its cell",
    async ({ link, spec }) => {
      const user = await ran(link, "sh", "-c", "id -un; id -u; id -g; id -G; : > mine");
      const [name, ...numbers] = user.stdout.trim().split("\n");
      expect([name, new Set(numbers).size]).toEqual(["cell", 1]);
      const [uid = ""] = outsideRan(["stat", "-c", "%u", `${spec.workspace}/mine`]).split("\n");
      expect(Number(uid)).toBeGreaterThan(0);
    },
  ],
];
