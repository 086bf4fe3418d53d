import { exec, line, part, read, root, said, spawn, write } from "../notation.ts";
import { PLAIN, type Scenario } from "../scenario.ts";

/** Sub-agents: at work beside each other, failing, nested, and cut off. */
export const AGENT_SCENARIOS: readonly Scenario[] = [
  {
    ...PLAIN,
    name: "agent",
    shows: ["scout's line 2"],
    parts: [
      root(line("a scout goes", spawn("scout")), said("done")),
      part(
        "scout",
        line("", exec("say", "north"), exec("say", "south")),
        line("", write("map.txt", "north")),
        said("it is north"),
      ),
    ],
  },
  {
    ...PLAIN,
    name: "agents",
    shows: ["scout's line 2", "smith's line 1"],
    parts: [
      root(
        line("both go", spawn("scout"), exec("build", "4"), spawn("smith", "exec")),
        line("", exec("say", "well")),
        said("done"),
      ),
      part("scout", line("", exec("say", "north")), line("", exec("say", "east")), said("north")),
      part("smith", line("", exec("build", "2"), exec("say", "iron")), said("it is forged")),
    ],
  },
  {
    ...PLAIN,
    name: "agent-nested",
    shows: ["scout's line 1", "captain's line 1"],
    parts: [
      root(line("", spawn("captain"), exec("say", "go")), said("done")),
      part("captain", line("", spawn("scout"), exec("say", "wait")), said("the scout is back")),
      // The third is one too deep, and is told so.
      part("scout", line("", spawn("hawk"), exec("say", "north")), said("north, without a hawk")),
      part("hawk", said("nobody hears this")),
    ],
  },
  {
    ...PLAIN,
    name: "agent-fails",
    shows: ["smith's line 1", "scout's line 1"],
    hitches: [{ part: "smith", at: 1, kind: "failed", isLasting: true }],
    parts: [
      root(line("", spawn("smith"), spawn("scout")), line("", exec("say", "on")), said("done")),
      part("smith", line("", exec("say", "iron")), said("nobody hears this")),
      part("scout", line("", exec("say", "north")), said("north")),
    ],
  },
  {
    ...PLAIN,
    name: "agent-narrow",
    shows: ["reader's line 2", "clerk's line 1"],
    files: { "map.txt": "north" },
    parts: [
      root(line("", spawn("reader", "read", "spawn")), said("done")),
      // It has no commands, and nobody that it sends has either.
      part(
        "reader",
        line("", exec("say", "no"), read("map.txt")),
        line("", spawn("thief", "exec"), spawn("clerk", "read")),
        said("it says north"),
      ),
      part("clerk", line("", exec("say", "no"), read("map.txt")), said("north")),
    ],
  },
  {
    ...PLAIN,
    name: "agents-many",
    shows: ["two's line 1", "three's line 1"],
    limits: { ...PLAIN.limits, agentCount: 2 },
    parts: [
      root(
        line("", spawn("one"), spawn("two"), spawn("three")),
        line("", spawn("three")),
        said("done"),
      ),
      part("one", line("", exec("say", "1")), said("the first")),
      part("two", line("", exec("say", "2")), said("the second")),
      part("three", line("", exec("say", "3")), said("the third")),
    ],
  },
  {
    ...PLAIN,
    name: "stop-agent",
    shows: ["cancels 4"],
    prompts: ["first", "second"],
    parts: [
      root(line("", spawn("smith"), exec("say", "go")), line("", spawn("scout")), said("done")),
      part("smith", line("", exec("build", "9")), said("nobody hears this")),
      part("scout", line("", exec("say", "north")), said("north")),
    ],
    stopAt: "command 4 runs, 3",
    ends: ["cancelled", "complete"],
  },
  {
    ...PLAIN,
    name: "stop-agent-model",
    shows: ["turn 1 ends as cancelled"],
    prompts: ["first", "second"],
    parts: [
      root(line("", spawn("smith"), spawn("scout")), said("done")),
      part("smith", line("", exec("build", "9")), said("nobody hears this")),
      part("scout", said("I was about to say")),
    ],
    stopAt: "hears some of scout's line 0",
    ends: ["cancelled", "complete"],
  },
  {
    ...PLAIN,
    name: "agent-refused",
    shows: ["exec 4 refused"],
    rules: [{ layer: "user", decision: "ask", ops: ["exec"] }],
    permits: "no",
    parts: [
      root(line("", spawn("scout"), exec("say", "1")), said("done")),
      part("scout", line("", exec("say", "2"), write("a.txt", "1")), said("I may not")),
    ],
  },
  {
    ...PLAIN,
    name: "agent-kind",
    shows: ["scout's line 1"],
    files: { "map.txt": "north" },
    parts: [
      root(line("", { ...spawn("scout"), agent: "reader" }), said("done")),
      part("scout", line("", exec("say", "no"), read("map.txt")), said("north")),
    ],
  },
];
