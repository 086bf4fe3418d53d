import { exec, line, part, question, root, said, spawn } from "../notation.ts";
import { PLAIN, type Scenario } from "../scenario.ts";

/** What a person says while the session is at work. */
export const WORD_SCENARIOS: readonly Scenario[] = [
  {
    ...PLAIN,
    name: "steer-model",
    shows: ["has done append steer"],
    parts: [root(line("", exec("say", "1")), line("", exec("say", "2")), said("done"))],
    steers: [{ at: "hears some of line 0", text: "go east" }],
  },
  {
    ...PLAIN,
    name: "steer-exec",
    shows: ["has done append steer"],
    parts: [root(line("", exec("build", "5")), line("", exec("say", "2")), said("done"))],
    steers: [
      { at: "command 2 runs, 2", text: "go east" },
      { at: "command 2 runs, 4", text: "go west" },
    ],
  },
  {
    ...PLAIN,
    name: "steer-agent",
    shows: ["has done append steer"],
    parts: [
      root(line("", spawn("scout")), said("done")),
      part("scout", line("", exec("build", "4")), line("", exec("say", "2")), said("north")),
    ],
    steers: [{ at: "command 3 runs, 2", text: "go east" }],
  },
  {
    ...PLAIN,
    name: "steer-question",
    shows: ["has done append steer"],
    parts: [root(line("", question("which?"), exec("say", "1")), said("done"))],
    steers: [{ at: "is asked question", text: "neither" }],
  },
  {
    ...PLAIN,
    name: "questions",
    shows: ["append reply 2", "append reply 3"],
    parts: [root(line("", question("which?"), question("when?"), exec("say", "1")), said("done"))],
  },
  {
    ...PLAIN,
    name: "questions-steered",
    shows: ["has done append steer"],
    parts: [
      root(line("", question("which?"), question("when?"), spawn("scout")), said("done")),
      part("scout", line("", question("where?"), exec("say", "1")), said("there")),
    ],
    steers: [{ at: "is asked question", text: "as you like" }],
  },
  {
    ...PLAIN,
    name: "question-prompted",
    shows: ["turn 2 ends as complete it answered"],
    prompts: ["first", "take b"],
    parts: [root(line("", question("which?"), question("when?")), said("done"))],
    dieAt: "is asked question",
    ends: ["complete", "complete"],
  },
  {
    ...PLAIN,
    name: "steer-late",
    shows: ["has done append steer"],
    prompts: ["first", "second"],
    parts: [root(line("", exec("say", "1")), said("one"), said("two"))],
    steers: [{ at: "store append model 3 reply", text: "go east" }],
    ends: ["complete", "complete"],
  },
  {
    ...PLAIN,
    name: "agent-prompted",
    shows: ["turn 2 ends as complete it answered"],
    prompts: ["first", "take b"],
    parts: [
      root(line("", spawn("scout"), exec("build", "3")), said("done")),
      part("scout", line("", question("where?"), exec("build", "2")), said("there")),
    ],
    dieAt: "is asked question",
    ends: ["complete", "complete"],
  },
  {
    ...PLAIN,
    name: "question-compact",
    shows: ["has done append reply 2"],
    prompts: ["first", "/compact"],
    parts: [root(line("", question("which?"), exec("say", "1")), said("done"))],
    dieAt: "is asked question",
    ends: ["complete", "complete"],
  },
];
