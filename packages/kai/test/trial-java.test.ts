import { test as base, describe, expect } from "vitest";
import { type Bench, bench, fingerprint } from "./trial-notation.ts";
import { KINDS } from "./trial-projects.ts";

const LIMIT_MS = 240_000;
const MACHINE = "java in one machine";
const isHere = KINDS.some(({ name, isHere }) => name === MACHINE && isHere);

const HALF = {
  "src/Half.java": `import java.util.*;

class Half {
  static int half(int n) {
    return n / 3;
  }
}
`,
  "src/Main.java": `public class Main {
  public static void main(String[] args) {
    if (Math.abs(-1) != 1 || !"\\n".equals(System.lineSeparator())) System.exit(2);
    assert Half.half(6) == 3;
  }
}
`,
};

const test = (name: string, line: string, act: (at: Bench) => Promise<void>) =>
  base(name, { timeout: LIMIT_MS }, async (context) => {
    context.skip(!isHere, "javac is not installed");
    await using at = await bench({ files: HALF, argv: ["sh", "-c", line], slotCount: 1 });
    const before = fingerprint(at.workspace);
    await act(at);
    expect(fingerprint(at.workspace)).toBe(before);
  });

const LINE = "mkdir -p out && javac -d out src/*.java && java -ea -cp out Main";

describe("a candidate of a machine that stays", () => {
  test("does its harm to itself alone", LINE, async (at) => {
    expect(at.trials.name).toBe(MACHINE);
    const harms = [
      'System.setProperty("line.separator", "x"); System.out.close(); Locale.setDefault(null)',
      "System.exit(4)",
      "try { System.exit(4); } catch (Throwable error) { } return 3",
      "return half(n)",
      "List<long[]> all = new ArrayList<>(); while (true) all.add(new long[1 << 20])",
      "Thread t = new Thread(() -> { while (true) { } }); t.setDaemon(true); t.start(); return 4",
    ];
    for (const harm of harms) {
      const code = harm.includes("while (true) all")
        ? `${harm};`
        : `if (n > 0) { ${harm}; } return 3;`;
      expect(await at.kind("src/Half.java", "return n / 3;", code)).not.toBe("broken");
      expect(await at.kind("src/Half.java", "n / 3", "n / 2")).toBe("passed");
      expect(await at.kind("src/Half.java", "n / 3", "n / 4")).toBe("failed");
    }
  });

  test("that exits has passed with 0 alone", LINE, async (at) => {
    expect(await at.kind("src/Half.java", "return n / 3;", "System.exit(0); return 0;")).toBe(
      "passed",
    );
    expect(await at.kind("src/Half.java", "return n / 3;", "System.exit(3); return 0;")).toBe(
      "failed",
    );
  });

  test("whose threads do not end does not end", LINE, async (at) => {
    const thread = "new Thread(() -> { while (true) { } }).start(); return n / 2;";
    expect(await at.kind("src/Half.java", "return n / 3;", thread, 700)).toBe("timeout");
    expect(await at.kind("src/Half.java", "n / 3", "n / 2")).toBe("passed");
  });

  test("that calls what cannot be caught is left to the command", LINE, async (at) => {
    const halt = "Runtime.getRuntime().halt(0); return 0;";
    expect(await at.kind("src/Half.java", "return n / 3;", halt)).toBe("passed");
    expect(await at.kind("src/Half.java", "return n / 3;", halt.replace("0", "1"))).toBe("failed");
  });
});

describe("a command that is more than compiling and running is run itself", () => {
  test(
    "as one that goes on after a failure",
    "mkdir out; javac -d out src/*.java && java -ea -cp out Main",
    async (at) => {
      expect(at.trials.name).toBe("cold");
      expect(await at.kind("src/Half.java", "n / 3", "n / 2")).toBe("passed");
    },
  );
});
