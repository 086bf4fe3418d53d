import { type AgentKind, type Config, DEFAULT_LIMITS, type Limits } from "@dev/core";
import { modelOf, OFFERED_TOOLS, toolSpecs } from "@dev/model";
import { type Fault, fail, ok, type Result } from "@dev/protocol";
import { type AgentFile, agentKinds, prelude } from "@dev/session";
import { checkModel, checkPrice } from "./provider.ts";
import type { Settings } from "./settings.ts";

/** What a new session's core is to be made with; `chosen` are the models that a person has named. */
export type ConfigTerms = {
  readonly model: string;
  readonly directory: string;
  readonly settings: Settings;
  readonly env: NodeJS.ProcessEnv;
  readonly chosen: readonly (string | null)[];
  /** Is told of a kind of sub-agent that was written for another tool, and why there is none of it. */
  readonly onPassedOver: (fault: Fault) => void;
};

/** Puts a new session's config together. Fault: `config`, naming the files where there are any. */
export function configOf(terms: ConfigTerms): Result<Config> {
  const { model, directory, settings } = terms;
  const limits: Limits = { ...DEFAULT_LIMITS, ...settings.limits };
  const checked = checkAsked(model, terms, limits);
  if (!checked.ok) return checked;
  const instructions = prelude(directory);
  if (!instructions.ok) return fail(asConfig(instructions.fault));
  const kinds = kindsOf(directory, (named) => checkAsked(named, terms, limits));
  if (!kinds.ok) return kinds;
  const { usable, broken, passedOver } = kinds.value;
  for (const fault of passedOver) terms.onPassedOver(fault);
  const [first, ...others] = broken;
  if (first !== undefined) return fail(joined(first, others));
  const agents = usable.map((file) => kindOf(file, model, settings));
  const { windowTokens, images } = modelOf(model, settings.models);
  // Where no agent may be nested, a model is not told how to.
  const tools = OFFERED_TOOLS.filter((name) => name !== "spawn" || limits.agentDepth > 0);
  return ok({
    model,
    effort: settings.effort,
    prelude: instructions.value,
    tools: toolSpecs(tools, agents),
    limits,
    windowTokens,
    images: images === true,
    agents,
  });
}

/** Whether a session that was made before can go on under the settings of today. Faults: `config`. */
export function checkConfig(
  config: Config,
  settings: Settings,
  env: NodeJS.ProcessEnv,
): Result<void> {
  // A config of an older release has no kinds, and no limit in money.
  const { model, agents = [], limits } = config as Partial<Config> & Pick<Config, "model">;
  const models = [model, ...agents.map((kind) => kind.model)];
  const limitMicroUsd = limits?.costMicroUsdPerSession ?? 0;
  for (const each of models) {
    const checked = checkModel(each, settings, env, models);
    if (!checked.ok) return checked;
    const priced = checkPrice(each, limitMicroUsd, settings.models);
    if (!priced.ok) return priced;
  }
  return ok(undefined);
}

/** What a project's descriptions of sub-agents come to. */
export type Kinds = {
  readonly usable: readonly AgentFile[];
  /** What is wrong with files in `.dev`, which are for Dev: there is no session before they are mended. */
  readonly broken: readonly Fault[];
  /** What is wrong with files in `.agents`, which other tools may have written: it stops nothing. */
  readonly passedOver: readonly Fault[];
};

/**
 * Looks at all files that describe a project's sub-agents; `check` says whether a model that one names
 * can be asked. Fault: `config`, when there is too much of them together.
 */
export function kindsOf(directory: string, check: (model: string) => Result<void>): Result<Kinds> {
  const broken: Fault[] = [];
  const passedOver: Fault[] = [];
  const onFlaw = (fault: Fault, isShared: boolean): void => {
    (isShared ? passedOver : broken).push(asConfig(fault));
  };
  const files = agentKinds(directory, onFlaw);
  if (!files.ok) return fail(asConfig(files.fault));
  const usable = files.value.filter(({ model, path, isShared }) => {
    const checked = model === null ? ok(undefined) : check(model);
    if (checked.ok) return true;
    const message = `model ${model}: ${checked.fault.message}`;
    onFlaw({ ...checked.fault, subject: path, message }, isShared);
    return false;
  });
  return ok({ usable, broken, passedOver });
}

/** A project's file that is too large is one to mend, like any other that is wrong. */
function asConfig(fault: Fault): Fault {
  return { ...fault, code: "config" };
}

/** Of the faults behind the first, how many are told one by one. */
const TOLD_LIMIT = 15;

/** One fault that names every file. */
function joined(first: Fault, others: readonly Fault[]): Fault {
  const told = others.slice(0, TOLD_LIMIT).map(({ subject, message }) => `${subject}: ${message}`);
  const moreCount = others.length - told.length;
  const more = moreCount > 0 ? [`and ${moreCount} more`] : [];
  return { ...first, message: [first.message, ...told, ...more].join("; ") };
}

function kindOf(file: AgentFile, usual: string, settings: Settings): AgentKind {
  const { name, description, prelude, model: named, tools } = file;
  const model = named ?? usual;
  const { windowTokens } = modelOf(model, settings.models);
  return { name, description, prelude, model, windowTokens, tools };
}

function checkAsked(model: string, terms: ConfigTerms, limits: Limits): Result<void> {
  const { settings, env, chosen } = terms;
  const checked = checkModel(model, settings, env, chosen);
  if (!checked.ok) return checked;
  return checkPrice(model, limits.costMicroUsdPerSession, settings.models);
}
