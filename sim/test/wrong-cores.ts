import type { Core, Session } from "@dev/host";
import type { Action, Message, ModelOp } from "@dev/protocol";
import { type Mutant, NO_MUTANT } from "@dev/sim";

/*
 * Cores that reason wrongly in one place each, the same way whenever they are replayed: what they do is
 * consistent, and only someone who follows the conversations can find it.
 */

/** After a summary, the first exchange that was to be kept is missing. */
export const FORGETS_TAIL: Mutant = wrongCore("forgotten tail", (op) => {
  const [summary, ...kept] = op.messages;
  if (summary === undefined || !isSummary(summary)) return op;
  const from = 1 + kept.slice(1).findIndex(({ kind }) => kind !== "tool");
  return from === 0 ? op : { ...op, messages: [summary, ...kept.slice(from)] };
});

/** A summary does not say what the plan is. */
export const FORGETS_PLAN: Mutant = wrongCore("forgotten plan", (op) => ({
  ...op,
  messages: op.messages.map((message) =>
    isSummary(message) && message.kind === "user"
      ? { ...message, text: message.text.replace(/The plan as it stands[\s\S]*/, "") }
      : message,
  ),
}));

/** What a person says in between is told twice. */
export const SAYS_TWICE: Mutant = wrongCore("doubled steer", (op) => ({
  ...op,
  messages: op.messages.flatMap((each) => (isSteer(each) ? [each, each] : [each])),
}));

/** What a person says in between is told to nobody. */
export const SAYS_NOTHING: Mutant = wrongCore("lost steer", (op) => ({
  ...op,
  messages: op.messages.filter((each) => !isSteer(each)),
}));

/** A message that answers a question is told as a message too. */
export const SAYS_ANSWER: Mutant = wrongCore("answer told twice", (op) => {
  const answer = op.messages.find((each) => each.kind === "tool" && each.text === "neither");
  if (answer?.kind !== "tool") return op;
  return { ...op, messages: [...op.messages, { kind: "user", text: answer.text, images: [] }] };
});

/** A call's result is told without what came of it. */
export const TELLS_NOTHING: Mutant = wrongCore("empty result", (op) => ({
  ...op,
  messages: op.messages.map((each) => (each.kind === "tool" ? { ...each, text: "well" } : each)),
}));

/** A sub-agent has a tool that nobody above it has. */
export const ARMS_AGENTS: Mutant = wrongCore("widened tools", (op, { agent }) => {
  const extra = { name: "browse", description: "to browse", parameters: "{}" };
  return agent === 0 || op.from > 0 ? op : { ...op, tools: [...op.tools, extra] };
});

/** One model call more than a turn may have. */
export const COUNTS_BADLY: Mutant = {
  ...NO_MUTANT,
  name: "miscounted calls",
  wrap: (services) => {
    const { core } = services;
    const create: Core["create"] = (config) => {
      const { modelCallsPerTurn } = config.limits;
      const limits = { ...config.limits, modelCallsPerTurn: modelCallsPerTurn + 1 };
      return core.create({ ...config, limits });
    };
    return { ...services, core: { ...core, create } };
  },
};

function wrongCore(name: string, change: (op: ModelOp, action: Action) => ModelOp): Mutant {
  const wrong = (session: Session): Session => ({
    ...session,
    step: (event) => {
      const stepped = session.step(event);
      if (!stepped.ok) return stepped;
      const actions = stepped.value.map((action) =>
        action.op.kind === "model" ? { ...action, op: change(action.op, action) } : action,
      );
      return { ok: true, value: actions };
    },
  });
  return {
    ...NO_MUTANT,
    name,
    wrap: (services) => {
      const { core } = services;
      const restore: Core["restore"] = (bytes) => {
        const restored = core.restore(bytes);
        return restored.ok ? { ok: true, value: wrong(restored.value) } : restored;
      };
      const create: Core["create"] = (config) => wrong(core.create(config));
      return { ...services, core: { ...core, create, restore } };
    },
  };
}

function isSummary(message: Message): boolean {
  return message.kind === "user" && message.text.includes("in a summary");
}

function isSteer(message: Message): boolean {
  return message.kind === "user" && message.text.startsWith("go ");
}
