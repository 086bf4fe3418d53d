import type { Ledger } from "@dev/kai";
import {
  type Generation,
  httpTransport,
  openDecisions,
  openGeneration,
  openSpend,
  routerAsker,
} from "@dev/kai";
import { modelOf } from "@dev/model";
import { fail, fault, ok, type Result } from "@dev/protocol";
import type { FixCommand } from "./fix-args.ts";
import { checkModel, checkPrice } from "./provider.ts";
import type { Settings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";
import { routerOf } from "./world.ts";

/** What a model may cost where nobody says. */
const BUDGET_USD = 1;
const MICRO_USD = 1_000_000;

/** Whom `dev fix` may ask, and for how much. */
export type FixModel = {
  /** `provider/model`. */
  readonly model: string;
  /** Asked once where that one, at full effort, has no edit; null: there is no other. */
  readonly fallback: string | null;
  readonly budgetMicroUsd: number;
};

/**
 * The model of the settings, checked as for a session; null where none may be asked, or none is
 * configured. Faults: `config`.
 */
export function fixModel(
  { isModelAllowed, budget }: Pick<FixCommand, "isModelAllowed" | "budget">,
  settings: Settings,
  env: NodeJS.ProcessEnv,
): Result<FixModel | null> {
  const { model, ownModel, models, limits } = settings;
  if (!isModelAllowed || model === null) return ok(null);
  const { fallbackModel: fallback } = settings;
  for (const each of fallback === null ? [model] : [model, fallback]) {
    const checked = checkModel(each, settings, env, [ownModel, fallback]);
    if (checked.ok) continue;
    const { mend } = checked.fault;
    return fail({ ...checked.fault, mend: `${mend}; or ask no model: --no-model` });
  }
  const said = budget === null ? 0 : microUsd(budget);
  const session = limits.costMicroUsdPerSession ?? 0;
  for (const each of fallback === null ? [model] : [model, fallback]) {
    const kept = checkPrice(each, session, models);
    if (!kept.ok) return kept;
    const priced = checkPrice(each, said, models, "--budget");
    if (!priced.ok) return priced;
  }
  const wanted = said === 0 ? microUsd(BUDGET_USD) : said;
  return ok({
    model,
    fallback,
    budgetMicroUsd: session === 0 ? wanted : Math.min(session, wanted),
  });
}

function microUsd(usd: number): number {
  return Math.max(1, Math.floor(usd * MICRO_USD));
}

export type FixHelp = {
  readonly helper: Generation;
  /** Ends what is under way; resolves when all that was spent is written down. */
  close(): Promise<void>;
};

export type FixHelpOptions = {
  readonly given: FixModel;
  readonly decisions: FixCommand["decisions"];
  readonly settings: Settings;
  readonly terminal: Terminal;
  readonly spend: string;
  readonly ledger: Ledger;
};

/** Opens the model, and the service that decides. Faults: `io`, `config`. */
export async function openFixHelp(options: FixHelpOptions): Promise<Result<FixHelp>> {
  const { given, settings, terminal, ledger } = options;
  const transport = transportOf(options);
  if (!transport.ok) return transport;
  const spend = await openSpend(options.spend, ledger.task);
  if (!spend.ok) return spend;
  const router = routerOf(settings, terminal);
  const { nowMs } = terminal;
  const askerOf = (model: string) => routerAsker(router, model, modelOf(model, settings.models));
  const helper = openGeneration({
    asker: askerOf(given.model),
    fallback: given.fallback === null ? null : askerOf(given.fallback),
    decisions: openDecisions({ transport: transport.value, model: given.model, nowMs }),
    spend: spend.value,
    budgetMicroUsd: given.budgetMicroUsd,
    nowMs,
    record: ({ kind, ...fields }) => ledger.note(kind, fields),
  });
  return ok({
    helper,
    close: async () => {
      await helper.close();
      await spend.value.close();
      router.close();
    },
  });
}

/** The decision service, where one is configured and rules are not to decide alone. */
function transportOf({ decisions, settings, terminal }: FixHelpOptions) {
  const { kai } = settings;
  if (kai === null || decisions === "rule") return ok(null);
  const { decisions: baseUrl, env_key: variable } = kai;
  const key = variable === undefined ? null : (terminal.env[variable] ?? "");
  if (key === "") {
    const mend = `export ${variable}=…; or have rules decide: --mode rule`;
    return fail(fault("config", "the key of the decision service is not set", variable, mend));
  }
  return ok(httpTransport({ baseUrl, key }));
}
