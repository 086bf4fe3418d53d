import { spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, test, vi } from "vitest";
import { openTrials } from "../src/trial/open.ts";
import { bench, DEADLINE_MS, fingerprint, NEVER, options, processesIn } from "./trial-notation.ts";
import { KINDS } from "./trial-projects.ts";

const LIMIT_MS = 120_000;

describe.each(KINDS)("$name, of $argv", (sample) => {
  const { file, fault, isHere } = sample;

  test(
    "a candidate that is right passes, and others fail as what they are",
    async (context) => {
      context.skip(!isHere, "its runner is not installed");
      await using at = await bench(sample);
      expect(at.trials.name).toBe(sample.name);
      const before = fingerprint(at.workspace);
      expect(await at.kind(file, fault, sample.right)).toBe("passed");
      expect(await at.kind(file, fault, sample.wrong)).toBe(sample.failure);
      expect(await at.kind(file, fault, sample.broken)).toBe("broken");
      expect(await at.kind(file, fault, fault)).toContain("failed");
      expect(await at.kind(file, fault, sample.right)).toBe("passed");
      expect(fingerprint(at.workspace)).toBe(before);
    },
    LIMIT_MS,
  );

  test(
    "a candidate that hangs ends at its deadline, and harms none after it",
    async (context) => {
      context.skip(!isHere, "its runner is not installed");
      await using at = await bench(sample);
      expect(await at.kind(file, fault, sample.hanging, 500)).toBe("timeout");
      expect(await at.kind(file, fault, sample.right)).toBe("passed");
      expect(await at.kind(file, fault, sample.hanging, 500)).toBe("timeout");
      expect(await at.kind(file, fault, sample.wrong)).toBe(sample.failure);
    },
    LIMIT_MS,
  );

  test(
    "many at once become what each would become alone",
    async (context) => {
      context.skip(!isHere, "its runner is not installed");
      await using at = await bench(sample);
      const texts = Array.from({ length: 12 }, (_, index) =>
        index % 3 === 0 ? sample.right : index % 3 === 1 ? sample.wrong : sample.broken,
      );
      const kinds = await Promise.all(texts.map((text) => at.kind(file, fault, text)));
      const expected = texts.map((_, index) => ["passed", sample.failure, "broken"][index % 3]);
      expect(kinds).toEqual(expected);
    },
    LIMIT_MS,
  );

  test(
    "an abort in the middle of a trial rejects it, and the slot is used again",
    async (context) => {
      context.skip(!isHere, "its runner is not installed");
      await using at = await bench(sample);
      const abort = new AbortController();
      const hanging = at.trials.try(
        at.candidate(file, fault, sample.hanging),
        DEADLINE_MS,
        abort.signal,
      );
      const rejected = expect(hanging).rejects.toThrow("enough");
      // Once another has come and gone, this one is under way.
      expect(await at.kind(file, fault, sample.wrong)).toBe(sample.failure);
      abort.abort(new Error("enough"));
      await rejected;
      const again = [1, 2, 3].map(() => at.kind(file, fault, sample.right));
      expect(await Promise.all(again)).toEqual(["passed", "passed", "passed"]);
    },
    LIMIT_MS,
  );

  test(
    "closing, also with trials under way, leaves no process and no file",
    async (context) => {
      context.skip(!isHere, "its runner is not installed");
      await using at = await bench(sample);
      const open = [sample.hanging, sample.right, sample.hanging].map((text) =>
        at.trials.try(at.candidate(file, fault, text), DEADLINE_MS, NEVER).catch(() => "rejected"),
      );
      // Of the three, the two that hang have both slots for good.
      expect(
        await at.trials
          .try(at.candidate(file, fault, sample.broken), 1, AbortSignal.abort())
          .catch(() => "aborted"),
      ).toBe("aborted");
      await at.trials.close();
      expect(
        (await Promise.all(open)).filter((kind) => kind === "rejected").length,
      ).toBeGreaterThan(1);
      expect(readdirSync(at.scratch)).toEqual([]);
      expect(processesIn(at.scratch)).toEqual([]);
    },
    LIMIT_MS,
  );

  test(
    "opening that is aborted leaves no process and no file",
    async (context) => {
      context.skip(!isHere, "its runner is not installed");
      await using at = await bench(sample);
      const scratch = join(at.scratch, "second");
      await mkdir(scratch);
      const abort = new AbortController();
      const opening = openTrials(
        { ...options(sample, at.workspace, scratch), nowMs: () => 0 },
        abort.signal,
      );
      abort.abort(new Error("enough"));
      await expect(opening).rejects.toThrow("enough");
      expect(readdirSync(scratch)).toEqual([]);
      expect(processesIn(scratch)).toEqual([]);
    },
    LIMIT_MS,
  );

  test(
    "a process that is killed leaves the workspace as it was, and no worker",
    async (context) => {
      const built = new URL("../dist/trial/open.js", import.meta.url);
      context.skip(
        !isHere || !existsSync(built),
        "its runner is not installed, or nothing is built",
      );
      const root = await mkdtemp(join(tmpdir(), "kai-killed-"));
      const [workspace, scratch] = [join(root, "work"), join(root, "scratch")];
      await mkdir(workspace);
      await mkdir(scratch);
      for (const [path, text] of Object.entries(sample.files)) {
        await writeFile(join(workspace, path), text);
      }
      const before = fingerprint(workspace);
      const victim = spawn(
        process.execPath,
        [
          new URL("./trial-victim.mjs", import.meta.url).pathname,
          JSON.stringify({ ...sample, workspace, scratch, built: built.href }),
        ],
        { stdio: ["ignore", "pipe", "inherit"] },
      );
      await new Promise<void>((resolve) =>
        createInterface({ input: victim.stdout }).on("line", () => resolve()),
      );
      victim.kill("SIGKILL");
      expect(fingerprint(workspace)).toBe(before);
      // A command that was started cold ends in its own time; whoever gives the shell ends it sooner.
      if (sample.name !== "cold") {
        await vi.waitFor(() => expect(processesIn(scratch)).toEqual([]), DEADLINE_MS);
      }
      expect(fingerprint(workspace)).toBe(before);
      await rm(root, { recursive: true, force: true });
    },
    LIMIT_MS,
  );
});
