// Packages that come with their own tests, and how these are run.
const pytest = (files) => ["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", ...files];
const compiles = (file) => ["python3", "-m", "py_compile", file];
const each = (files) => ["sh", "-c", files.map((file) => `node ${file}`).join(" && ")];
const alone = (files) => (files.length === 1 ? ["node", files[0]] : each(files));
const mocha = (files) => ["node", "node_modules/mocha/bin/mocha.js", ...files];
const checks = (file) => ["node", "--check", file];

const python = { from: "pip", command: pytest, check: compiles };
const tape = { from: "npm", command: alone, check: checks, more: ["tape@5.9.0"] };
const withMocha = { from: "npm", command: mocha, check: checks, more: ["mocha@10.8.2"] };

export const packages = [
  {
    ...python,
    name: "toolz",
    version: "1.2.0",
    sources: /^toolz\/(itertoolz|dicttoolz|functoolz|recipes)\.py$/,
    tests: /^toolz\/tests\/test_(itertoolz|dicttoolz|functoolz|recipes)\.py$/,
  },
  {
    ...python,
    name: "simplejson",
    version: "4.3.0",
    sources: /^simplejson\/[a-z_]+\.py$/,
    tests: /^simplejson\/tests\/test_[a-z_]+\.py$/,
  },
  {
    ...python,
    name: "petl",
    version: "1.7.30",
    sources: /^petl\/(transform|util)\/[a-z]+\.py$/,
    tests: /^petl\/test\/(transform|util)\/test_[a-z]+\.py$/,
  },
  {
    ...python,
    name: "mpmath",
    version: "1.4.1",
    sources: /^mpmath\/(libmp|calculus|matrices)\/[a-z_]+\.py$/,
    tests:
      /^mpmath\/tests\/test_(basic_ops|bitwise|convert|diff|linalg|matrices|interval|rootfinding)\.py$/,
  },
  {
    ...tape,
    name: "qs",
    version: "6.11.0",
    sources: /^lib\/[a-z]+\.js$/,
    tests: /^test\/(parse|stringify|utils)\.js$/,
    more: [
      "tape@5.9.0",
      "for-each@0.3.5",
      "has-symbols@1.1.0",
      "iconv-lite@0.4.24",
      "object-inspect@1.13.1",
      "safer-buffer@2.1.2",
    ],
  },
  {
    ...tape,
    name: "shell-quote",
    version: "1.8.1",
    sources: /^(parse|quote)\.js$/,
    tests: /^test\/[a-z]+\.js$/,
  },
  {
    ...tape,
    name: "object-inspect",
    version: "1.13.1",
    sources: /^index\.js$/,
    tests: /^test\/[a-zA-Z]+\.js$/,
    more: ["tape@5.9.0", "has-tostringtag@1.0.2", "es-value-fixtures@1.7.0", "for-each@0.3.5"],
  },
  {
    ...tape,
    name: "minimist",
    version: "1.2.8",
    sources: /^index\.js$/,
    tests: /^test\/[a-z_]+\.js$/,
  },
  {
    ...withMocha,
    name: "hash.js",
    version: "1.1.7",
    sources: /^lib\/.*\.js$/,
    tests: /^test\/[a-z-]+test\.js$/,
  },
];
