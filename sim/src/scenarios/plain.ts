import { exec, hitch, line, patch, question, read, root, said, write } from "../notation.ts";
import { PLAIN, type Scenario } from "../scenario.ts";

/** One conversation, its effects, and what a person has to say to them. */
export const PLAIN_SCENARIOS: readonly Scenario[] = [
  { ...PLAIN, name: "exec", parts: [root(line("I run it", exec("say", "hello")), said("done"))] },
  {
    ...PLAIN,
    name: "batch",
    files: { "a.txt": "one" },
    parts: [
      root(
        line("all at once", read("a.txt"), write("b.txt", "two"), exec("say", "three")),
        said("done"),
      ),
    ],
  },
  {
    ...PLAIN,
    name: "patch",
    files: { "a.txt": "one two" },
    parts: [
      root(
        line("first", patch("a.txt", "one", "1")),
        line("then", patch("a.txt", "two", "2"), patch("a.txt", "absent", "3")),
        line("and", exec("fail", "3")),
        said("done"),
      ),
    ],
  },
  {
    ...PLAIN,
    name: "long",
    parts: [root(line("it takes a while", exec("build", "5")), said("done"))],
  },
  {
    ...PLAIN,
    name: "turns",
    prompts: ["first", "second"],
    parts: [root(line("", exec("say", "1")), said("one"), line("", exec("say", "2")), said("two"))],
    ends: ["complete", "complete"],
  },
  {
    ...PLAIN,
    name: "stop-exec",
    prompts: ["first", "second"],
    parts: [root(line("", exec("build", "9"), exec("build", "8")), said("done"))],
    stopAt: "command 2 runs, 3",
    ends: ["cancelled", "complete"],
  },
  {
    ...PLAIN,
    name: "stop-model",
    prompts: ["first", "second"],
    parts: [root(line("", exec("say", "1")), said("I was about to say"), said("done"))],
    stopAt: "hears some of line 1",
    ends: ["cancelled", "complete"],
  },
  {
    ...PLAIN,
    name: "refused",
    rules: [{ layer: "user", decision: "deny", ops: ["exec"], reason: "no commands" }],
    parts: [root(line("", exec("say", "1"), write("a.txt", "1")), said("done"))],
  },
  {
    ...PLAIN,
    name: "stop-refused",
    prompts: ["first", "second"],
    rules: [{ layer: "user", decision: "deny", ops: ["exec"] }],
    parts: [root(line("", exec("say", "1"), exec("say", "2"), write("a.txt", "1")), said("done"))],
    stopAt: "store append exec 3",
    ends: ["cancelled", "complete"],
  },
  {
    ...PLAIN,
    name: "permitted",
    rules: [{ layer: "user", decision: "ask", ops: ["exec"] }],
    parts: [root(line("", exec("say", "1"), exec("say", "2"), write("a.txt", "1")), said("done"))],
  },
  {
    ...PLAIN,
    name: "denied",
    permits: "no",
    rules: [{ layer: "user", decision: "ask", ops: ["exec"] }],
    parts: [root(line("", exec("say", "1"), write("a.txt", "1")), said("done"))],
  },
  {
    ...PLAIN,
    name: "stop-permit",
    prompts: ["first", "second"],
    rules: [{ layer: "user", decision: "ask", ops: ["exec"] }],
    parts: [root(line("", exec("say", "1"), write("a.txt", "1")), said("done"))],
    stopAt: "is asked to permit",
    ends: ["cancelled", "complete"],
  },
  {
    ...PLAIN,
    name: "question",
    parts: [root(line("", question("which?"), exec("say", "1")), said("done"))],
  },
  {
    ...PLAIN,
    name: "hitch",
    prompts: ["first", ""],
    parts: [root(line("", exec("say", "1")), said("done"))],
    hitches: [hitch("retried", 0), hitch("cut", 1)],
    ends: ["failed", "complete"],
  },
  {
    ...PLAIN,
    name: "relink",
    parts: [root(line("", exec("build", "6"), exec("build", "2")), said("done"))],
    cutAt: "command 2 runs, 2",
  },
  { ...PLAIN, name: "killed", parts: [root(line("", exec("crash", "now")), said("done"))] },
];
