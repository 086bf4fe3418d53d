// Tiny projects with known faults: Go, Rust, Java, plain programs, and other output.

const goFiles = (body) => ({
  "go.mod": "module example.com/sums\n\ngo 1.20\n",
  "calc/calc.go": `package calc

func Add(a, b int) int {
	return a - b
}

func First(list []string) string {
	return list[0]
}
`,
  "calc/calc_test.go": `package calc

import "testing"

func TestZero(t *testing.T) {
	if Add(0, 0) != 0 {
		t.Fatal("not zero")
	}
}
${body}`,
  "well/well_test.go": 'package well\n\nimport "testing"\n\nfunc TestWell(t *testing.T) {}\n',
});

const goFailures = [
  [
    "example.com/sums/calc.TestAdds/one_and_two",
    "calc/calc_test.go",
    "assertion",
    "Add(1, 2) = -1",
    ["calc/calc_test.go:14 "],
  ],
];

const go = {
  name: "go",
  tools: ["system"],
  files: goFiles(`
func TestAdds(t *testing.T) {
	t.Run("one and two", func(t *testing.T) {
		if got := Add(1, 2); got != 3 {
			t.Errorf("Add(1, 2) = %d\\nwanted %d", got, 3)
		}
	})
	t.Run("nothing", func(t *testing.T) {})
}
`),
  expected: { runner: "go", passed: null, failed: 1, failures: goFailures },
  runs: [
    { name: "plain", argv: ["go", "test", "./..."] },
    { name: "verbose", argv: ["go", "test", "-v", "./..."], expected: { passed: 3 } },
    { name: "json", argv: ["go", "test", "-json", "./..."], expected: { passed: 3 } },
    {
      name: "below",
      argv: ["go", "test"],
      cwd: "calc",
    },
  ],
};

const goPanic = {
  name: "go-panic",
  tools: ["system"],
  files: goFiles(`
func TestFirst(t *testing.T) {
	if First(nil) != "ann" {
		t.Fatal("not ann")
	}
}
`),
  expected: {
    runner: "go",
    passed: null,
    failed: 1,
    failures: [
      [
        "example.com/sums/calc.TestFirst",
        "calc/calc_test.go",
        "error",
        "index out of range [0] with length 0",
        ["calc/calc.go:8 First", "calc/calc_test.go:12 TestFirst"],
      ],
    ],
  },
  runs: [
    { name: "plain", argv: ["go", "test", "./..."] },
    { name: "json", argv: ["go", "test", "-json", "./..."], expected: { passed: 2 } },
  ],
};

const goBroken = {
  name: "go-broken",
  tools: ["system"],
  files: {
    ...goFiles(""),
    "calc/calc.go": "package calc\n\nfunc Add(a, b int) int {\n\treturn a - c\n}\n",
  },
  expected: {
    runner: "go",
    passed: null,
    failed: 1,
    failures: [["example.com/sums/calc", null, "load", "undefined: c", ["calc/calc.go:4 "]]],
  },
  runs: [
    { name: "plain", argv: ["go", "test", "./..."] },
    { name: "json", argv: ["go", "test", "-json", "./..."], expected: { passed: 1 } },
  ],
};

const rustLib = `pub fn add(a: i32, b: i32) -> i32 {
    a - b
}

pub fn first(list: &[i32]) -> i32 {
    list[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_zero() {
        assert_eq!(add(0, 0), 0);
    }

    #[test]
    fn adds() {
        assert_eq!(add(1, 2), 3, "of one and two");
    }

    #[test]
    fn first_of_none() {
        assert_eq!(first(&[]), 1);
    }
}
`;
const cargoToml = '[package]\nname = "sums"\nversion = "0.1.0"\nedition = "2021"\n';
const cargo = {
  name: "cargo",
  tools: ["system"],
  files: {
    "Cargo.toml": cargoToml,
    ".gitignore": "target\n",
    "src/lib.rs": rustLib,
    "tests/whole.rs": "#[test]\nfn adds_whole() {\n    assert!(sums::add(2, 2) == 4);\n}\n",
  },
  expected: {
    runner: "cargo",
    passed: 1,
    failed: 3,
    failures: [
      ["tests::adds", "src/lib.rs", "assertion", "of one and two", ["src/lib.rs:20 "]],
      ["tests::first_of_none", "src/lib.rs", "error", "index out of bounds", ["src/lib.rs:6 "]],
      ["adds_whole", "tests/whole.rs", "assertion", "sums::add(2, 2) == 4", ["tests/whole.rs:3 "]],
    ],
  },
  runs: [
    { name: "plain", argv: ["cargo", "test", "--offline", "--no-fail-fast"] },
    { name: "quiet", argv: ["cargo", "test", "--offline", "-q", "--no-fail-fast"] },
  ],
};
const cargoBroken = {
  name: "cargo-broken",
  tools: ["system"],
  files: {
    "Cargo.toml": cargoToml,
    "src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 {\n    a - c\n}\n",
  },
  expected: {
    runner: "cargo",
    passed: null,
    failed: null,
    failures: [["", null, "load", "cannot find value `c` in this scope", ["src/lib.rs:2 "]]],
  },
  runs: [{ name: "plain", argv: ["cargo", "test", "--offline"] }],
};

const solution = `package org.sums;

public class Solution {
    public static int add(int a, int b) {
        return a - b;
    }

    public static int first(int[] list) {
        return list[0];
    }
}
`;
const main = (body) => `import org.sums.Solution;

public class Main {
    public static void main(String[] args) {
        ${body}
    }
}
`;
const javaArgv = ["sh", "-c", "javac -d out $(find . -name '*.java') && java -ea -cp out Main"];
const java = (name, body, failure, text = solution) => ({
  name,
  tools: ["system"],
  files: { "src/org/sums/Solution.java": text, "Main.java": main(body) },
  expected: { runner: "unknown", passed: null, failed: null, failures: [failure] },
  runs: [{ name: "plain", argv: javaArgv }],
});

const javaMains = [
  java("java-assertion", 'if (Solution.add(1, 2) != 3) throw new AssertionError("not three");', [
    "",
    null,
    "assertion",
    "not three",
    ["Main.java:5 main"],
  ]),
  java("java-error", "System.out.println(Solution.first(new int[0]));", [
    "",
    null,
    "error",
    "Index 0 out of bounds for length 0",
    ["src/org/sums/Solution.java:9 first", "Main.java:5 main"],
  ]),
  java(
    "java-broken",
    "Solution.add(1, 2);",
    ["", null, "load", "cannot find symbol", ["src/org/sums/Solution.java:5 "]],
    solution.replace("a - b", "a - c"),
  ),
  java(
    "java-exit",
    'if (Solution.add(1, 2) != 3) { System.err.println("add(1, 2) is not 3"); System.exit(1); }',
    ["", null, "error", "add(1, 2) is not 3", []],
  ),
];

const plain = (name, argv, files, failure, runner = "unknown", tools = ["system"]) => ({
  name,
  tools,
  files,
  expected: { runner, passed: null, failed: null, failures: [failure] },
  runs: [{ name: "plain", argv }],
});

const calcJs =
  "exports.add = function add(a, b) {\n  return a - b;\n};\nexports.first = (list) => list[0].name;\n";
const plains = [
  plain(
    "node-file",
    ["node", "check.js"],
    {
      "calc.js": calcJs,
      "check.js":
        'const assert = require("node:assert");\nconst { add } = require("./calc.js");\nassert.deepStrictEqual([add(1, 2)], [3]);\n',
    },
    ["", null, "assertion", "Expected values to be strictly deep-equal", ["check.js:3 "]],
    "unknown",
    ["system", "node-24"],
  ),
  plain(
    "node-file-error",
    ["node", "check.js"],
    {
      "calc.js": calcJs,
      "check.js":
        'const { first } = require("./calc.js");\nfunction checked() {\n  first([]);\n}\nchecked();\n',
    },
    [
      "",
      null,
      "error",
      "Cannot read properties of undefined (reading 'name')",
      ["calc.js:4 first", "check.js:3 checked", "check.js:5 "],
    ],
    "unknown",
    ["system", "node-24"],
  ),
  plain(
    "node-file-broken",
    ["node", "check.js"],
    { "calc.js": "exports.add = (a, b) => a - ;\n", "check.js": 'require("./calc.js");\n' },
    ["", null, "load", "SyntaxError: Unexpected token ';'", ["calc.js:1 ", "check.js:1 "]],
    "unknown",
    ["system", "node-24"],
  ),
  plain(
    "python-file",
    ["python3", "check.py"],
    {
      "calc.py": "def add(a, b):\n    return a - b\n",
      "check.py":
        'from calc import add\n\n\ndef check():\n    assert add(1, 2) == 3, "one and two"\n\n\ncheck()\n',
    },
    ["", null, "assertion", "one and two", ["check.py:5 check", "check.py:8 "]],
    "unknown",
    ["python-3.9", "python-3.13"],
  ),
  plain(
    "script",
    ["sh", "check.sh"],
    {
      "check.sh":
        'echo "1 of 2"\necho "lib/sums.txt:2: wanted 3, found -1"\necho "make: *** failed" >&2\nexit 2\n',
      "lib/sums.txt": "1\n-1\n",
    },
    ["", null, "error", "wanted 3, found -1", ["lib/sums.txt:2 "]],
  ),
];

const tape = {
  name: "tape",
  tools: ["tape-5"],
  files: {
    "calc.js": calcJs,
    "check.js":
      'const test = require("tape");\nconst { add } = require("./calc.js");\n\ntest("sums", (t) => {\n  t.equal(add(0, 0), 0, "keeps zero");\n  t.equal(add(1, 2), 3, "adds # twice");\n  t.end();\n});\n',
  },
  expected: {
    runner: "tap",
    passed: 1,
    failed: 1,
    failures: [["adds # twice", "check.js", "assertion", "expected: 3", ["check.js:6 "]]],
  },
  runs: [{ name: "plain", argv: ["node", "check.js"] }],
};

const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>org.sums</groupId>
  <artifactId>sums</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.source>17</maven.compiler.source>
    <maven.compiler.target>17</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency>
      <groupId>org.junit.jupiter</groupId>
      <artifactId>junit-jupiter</artifactId>
      <version>5.11.4</version>
      <scope>test</scope>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin>
        <artifactId>maven-surefire-plugin</artifactId>
        <version>3.5.2</version>
      </plugin>
    </plugins>
  </build>
</project>
`;
const surefireFile = "src/test/java/org/sums/SolutionTest.java";
const surefireFailures = [
  [
    "org.sums.SolutionTest.adds",
    surefireFile,
    "assertion",
    "expected: <3> but was: <-1>",
    [`${surefireFile}:14 adds`],
  ],
  [
    "org.sums.SolutionTest.first",
    surefireFile,
    "error",
    "Index 0 out of bounds for length 0",
    ["src/main/java/org/sums/Solution.java:9 first", `${surefireFile}:19 first`],
  ],
];
const surefire = {
  name: "surefire",
  tools: ["system"],
  files: {
    "pom.xml": pom,
    "src/main/java/org/sums/Solution.java": solution,
    [surefireFile]: `package org.sums;

import static org.junit.jupiter.api.Assertions.assertEquals;
import org.junit.jupiter.api.Test;

class SolutionTest {
    @Test
    void zero() {
        assertEquals(0, Solution.add(0, 0));
    }

    @Test
    void adds() {
        assertEquals(3, Solution.add(1, 2));
    }

    @Test
    void first() {
        assertEquals(1, Solution.first(new int[0]));
    }
}
`,
  },
  expected: { runner: "junit", passed: 1, failed: 2, failures: surefireFailures },
  runs: [
    {
      name: "xml",
      argv: [
        "sh",
        "-c",
        "mvn -q -B test >/dev/null 2>&1; cat target/surefire-reports/*.xml; exit 1",
      ],
    },
    { name: "plain", argv: ["mvn", "-B", "test"] },
    { name: "quiet", argv: ["mvn", "-q", "-B", "test"] },
  ],
};

export const platformProjects = [
  go,
  goPanic,
  goBroken,
  cargo,
  cargoBroken,
  ...javaMains,
  ...plains,
  tape,
  surefire,
];
