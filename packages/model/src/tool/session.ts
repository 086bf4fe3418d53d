import * as v from "valibot";
import { defineTool, type Tool, unless } from "./tool.ts";

/** Choices of one question. */
const CHOICE_LIMIT = 32;
/** Items of a plan. */
const ITEM_LIMIT = 128;

const filled = (what: string) =>
  v.pipe(v.string(), v.nonEmpty("expected a text that is not empty"), v.description(what));

export const QUESTION: Tool = defineTool({
  name: "question",
  description:
    "Asks the person a question and waits for the answer, which may take long. Answers with their choice or their own words. Fails if nobody is there to answer. Ask only for what you cannot find out.",
  schema: v.strictObject({
    text: filled("The question."),
    choices: v.optional(
      v.pipe(
        v.array(v.string()),
        v.maxLength(CHOICE_LIMIT, `expected at most ${CHOICE_LIMIT} choices`),
        v.description("Answers to choose from; none for an open question."),
      ),
      [],
    ),
    many: v.optional(
      v.pipe(v.boolean(), v.description("Whether more than one choice may be taken.")),
      false,
    ),
  }),
  toOp: (input) => ({ kind: "question", ...input }),
  toArguments: (op) => ({
    text: op.text,
    choices: op.choices.length === 0 ? undefined : [...op.choices],
    many: unless(op.many, false),
  }),
});

export const PLAN: Tool = defineTool({
  name: "plan",
  description:
    "Writes down the plan of your work, replacing the one before; the person sees it, and it is kept when the conversation is shortened. Answers with the plan. Use it for work of several steps, and keep at most one item active.",
  schema: v.strictObject({
    items: v.pipe(
      v.array(
        v.strictObject({
          text: filled("One step, in a few words."),
          status: v.picklist(["pending", "active", "done"]),
        }),
      ),
      v.maxLength(ITEM_LIMIT, `expected at most ${ITEM_LIMIT} items`),
      v.description("All steps in order."),
    ),
  }),
  toOp: ({ items }) => ({ kind: "plan", items }),
  toArguments: (op) => ({ items: op.items.map(({ text, status }) => ({ text, status })) }),
});

export const SPAWN: Tool = defineTool({
  name: "spawn",
  description:
    "Hands a task to another agent, with a conversation of its own in the same workspace, and waits for it. Answers with its last text and nothing else of what it saw: use it for work that can be told in full and whose details you need not know, such as a search through many files. Several in one reply work at the same time. It knows only what the prompt tells it. Fails if no more agents may be started.",
  schema: v.strictObject({
    prompt: filled("The whole task, with all that must be known to do it."),
    agent: v.optional(
      v.pipe(v.string(), v.description("The kind of agent; empty is the usual.")),
      "",
    ),
    tools: v.optional(
      v.pipe(v.array(v.string()), v.description("Names of the tools it may use; none is all.")),
      [],
    ),
  }),
  toOp: (input) => ({ kind: "spawn", ...input }),
  toArguments: (op) => ({
    prompt: op.prompt,
    agent: unless(op.agent, ""),
    tools: op.tools.length === 0 ? undefined : [...op.tools],
  }),
});
