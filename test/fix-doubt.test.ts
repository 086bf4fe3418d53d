import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { read } from "./support/dev.ts";
import { FAULTY, fixing, has, onDesk, type Project, snapshot } from "./support/fix.ts";

const LIMIT_MS = 180_000;

test(
  "a command that could not be confined was not run, and is no test that fails",
  ({ skip }) => {
    skip(!has(["bwrap", "--version"]), "bubblewrap is not on this machine");
    return onDesk(FAULTY, async (desk) => {
      const folder = join(desk.root, "programs");
      mkdirSync(folder);
      const own = `#!/bin/sh
PATH="\${PATH#*:}"
case "$*" in *--seccomp*) exec bwrap --ro-bind /nonexistent /nonexistent "$@" ;; esac
exec bwrap "$@"
`;
      // It answers when it is asked whether it is there, and fails when a command is to run in it.
      writeFileSync(join(folder, "bwrap"), own, { mode: 0o755 });
      const before = snapshot(desk.project);
      const ran = await desk.run(fixing(FAULTY, "--json"), {
        env: { PATH: `${folder}:${process.env.PATH ?? ""}` },
      });
      expect(ran.lines.at(-1).reason).toMatch(/^it could not be confined: bwrap: .*nonexistent/);
      expect(ran.code).toBe(3);
      expect(snapshot(desk.project)).toEqual(before);
    });
  },
  LIMIT_MS,
);

test(
  "a socket that a variable names is out of reach, and a link beside a program is no hindrance",
  ({ skip }) => {
    skip(!has(["bwrap", "--version"]), "bubblewrap is not on this machine");
    const reach = `const path = process.env.SSH_AUTH_SOCK ?? process.env.XDG_RUNTIME_DIR + "/agent";
require("node:net").connect(path, () => process.exit(0)).on("error", () => process.exit(1));`;
    const reaching: Project = { files: { "a.txt": "" }, argv: ["node", "-e", reach] };
    return onDesk(reaching, async (desk) => {
      // Beside the home, of which a command sees what there is.
      const folder = mkdtempSync(join(tmpdir(), "dev-run-"));
      symlinkSync("/nonexistent", join(folder, "gone"));
      const agent = createServer().listen(join(folder, "agent"));
      await once(agent, "listening");
      const path = `${process.env.PATH ?? ""}:${folder}`;
      const named = [
        { SSH_AUTH_SOCK: join(folder, "agent") },
        { XDG_RUNTIME_DIR: folder },
      ] as const;
      for (const env of named) {
        const ran = await desk.run(fixing(reaching, "--json", "--timeout", "4"), { env });
        expect(ran.code).toBe(1);
      }
      agent.close();
      const plain: Project = { files: {}, argv: ["true"] };
      const linked = await desk.run(fixing(plain, "--json"), {
        env: { PATH: path, _: join(folder, "gone") },
      });
      rmSync(folder, { recursive: true });
      expect(linked.code).toBe(4);
    });
  },
  LIMIT_MS,
);

test(
  "a time that no timer holds is as long as there is",
  () => {
    const passing: Project = { files: FAULTY.files, argv: ["true"] };
    return onDesk(passing, async (desk) => {
      const ran = await desk.run(fixing(passing, "--json", "--timeout", "1e9"));
      expect(ran.code).toBe(4);
      expect(ran.stderr).not.toContain("Warning");
    });
  },
  LIMIT_MS,
);

test(
  "a test that hangs, and passes with nothing changed, is said to be flaky",
  () => {
    const flaky: Project = {
      files: {
        "add.js": "exports.add = (a, b) => {\n  const sum = a + b;\n  return sum;\n};\n",
        // It hangs the first time that it is asked.
        "hang.sh": `if [ ! -e "$MARK" ]; then : > "$MARK"; exec sleep 600; fi
exec node -e 'if (require("./add.js").add(2, 3) !== 5) process.exit(1)'
`,
      },
      argv: ["sh", "hang.sh"],
    };
    return onDesk(flaky, async (desk) => {
      const config = join(desk.home, "config.toml");
      writeFileSync(config, `${read(config)}\n[local]\nconfine = false\n`);
      const before = snapshot(desk.project);
      const ran = await desk.run(fixing(flaky, "--json", "--timeout", "20"), {
        env: { MARK: join(desk.root, "mark") },
      });
      expect(ran.code).toBe(1);
      expect(ran.lines.at(-1).reason).toContain("flaky");
      expect(snapshot(desk.project)).toEqual(before);
    });
  },
  LIMIT_MS,
);
