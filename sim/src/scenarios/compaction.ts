import { exec, hitch, line, part, plan, root, said, spawn } from "../notation.ts";
import { PLAIN, type Scenario } from "../scenario.ts";

/** Little is kept of the newest messages, so that much is summarised. */
const TIGHT = { ...PLAIN.limits, keptBytes: 800 };

/** Long enough to need a summary. */
const WORK = [
  line("", plan("look about", "come back")),
  line("", exec("say", "1")),
  line("", exec("say", "2"), exec("say", "3")),
  line("", exec("say", "4")),
  line("", exec("say", "5")),
  said("done"),
] as const;

/** Conversations that grow longer than their model's window. */
export const COMPACTION_SCENARIOS: readonly Scenario[] = [
  {
    ...PLAIN,
    name: "compact",
    shows: ["hears some of summary"],
    limits: TIGHT,
    windowTokens: 1000,
    parts: [root(...WORK)],
  },
  {
    ...PLAIN,
    name: "overflow",
    shows: ["hears some of summary"],
    limits: TIGHT,
    windowMessages: 9,
    parts: [root(...WORK)],
  },
  {
    ...PLAIN,
    name: "compact-asked",
    shows: ["hears some of summary"],
    prompts: ["first", "/compact what is north", "/compact", "second"],
    limits: TIGHT,
    parts: [root(...WORK.slice(0, -1), said("one"), line("", exec("say", "6")), said("two"))],
    ends: ["complete", "complete", "complete", "complete"],
  },
  {
    ...PLAIN,
    name: "compact-twice",
    shows: ["hears some of summary after 2", "hears some of summary after 4"],
    limits: TIGHT,
    windowTokens: 900,
    parts: [root(...WORK.slice(0, -1), ...WORK.slice(1))],
  },
  {
    ...PLAIN,
    name: "compact-agent",
    shows: ["hears some of scout's summary"],
    limits: TIGHT,
    windowTokens: 1000,
    parts: [
      root(line("", plan("send one"), spawn("scout"), exec("build", "6")), said("done")),
      part("scout", ...WORK.slice(1), line("", exec("say", "6")), said("it is north")),
    ],
  },
  {
    ...PLAIN,
    name: "compact-beside",
    shows: ["hears some of summary"],
    limits: TIGHT,
    windowTokens: 800,
    parts: [
      root(
        ...WORK.slice(0, 3),
        line("", spawn("scout"), exec("say", "go")),
        line("", spawn("scout")),
        said("done"),
      ),
      part("scout", line("", exec("say", "north")), said("north")),
    ],
  },
  {
    ...PLAIN,
    name: "compact-fails",
    shows: ["not summarised", "hears some of summary"],
    prompts: ["first", "second"],
    limits: TIGHT,
    windowTokens: 1000,
    hitches: [hitch("failed", "summary")],
    parts: [root(...WORK)],
    ends: ["failed", "complete"],
  },
  {
    ...PLAIN,
    name: "compact-stop",
    shows: ["hears some of summary"],
    prompts: ["first", "second"],
    limits: TIGHT,
    windowTokens: 1000,
    parts: [root(...WORK)],
    stopAt: "hears some of summary",
    ends: ["cancelled", "complete"],
  },
  {
    ...PLAIN,
    name: "compact-vain",
    shows: ["what must stay does not fit"],
    prompts: ["first", "second"],
    limits: TIGHT,
    windowMessages: 2,
    parts: [root(...WORK)],
    ends: ["failed", "failed"],
  },
  {
    ...PLAIN,
    name: "overflow-agent",
    shows: ["hears some of scout's summary"],
    limits: TIGHT,
    windowMessages: 7,
    parts: [
      root(line("", spawn("scout"), exec("say", "go")), said("done")),
      part("scout", ...WORK.slice(1, -1), said("it is north")),
    ],
  },
  {
    ...PLAIN,
    name: "compact-steered",
    shows: ["has done append steer", "hears some of summary"],
    limits: TIGHT,
    windowTokens: 1000,
    parts: [root(...WORK)],
    steers: [{ at: "asks the model for summary", text: "go east" }],
  },
  {
    ...PLAIN,
    name: "compact-fails-agent",
    shows: ["asks the model for scout's summary"],
    limits: TIGHT,
    windowTokens: 1000,
    hitches: [{ part: "scout", at: "summary", kind: "failed", isLasting: true }],
    parts: [
      root(line("", spawn("scout"), exec("say", "go")), said("done")),
      part("scout", ...WORK.slice(1)),
    ],
  },
];
