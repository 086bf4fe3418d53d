import {
  hasPrice,
  KNOWN_PROVIDERS,
  knownProvider,
  type ModelOverrides,
  type Provider,
} from "@dev/model";
import { fail, fault, ok, type Result } from "@dev/protocol";
import type { Settings } from "./settings.ts";
import type { ProviderSettings } from "./settings-file.ts";

/** The provider of this name: as settings have it, or else as Dev knows it; null if neither does. */
export function providerNamed(name: string, settings: Settings): ProviderSettings | null {
  const own = Object.hasOwn(settings.providers, name) ? settings.providers[name] : undefined;
  if (own !== undefined) return own;
  const known = knownProvider(name);
  if (known === null) return null;
  return { wire: known.wire, base_url: known.baseUrl, env_key: known.keyVariable };
}

/** All providers that a model may be of, with the keys that the environment holds. */
export function keyedProviders(
  settings: Settings,
  env: NodeJS.ProcessEnv,
): Readonly<Record<string, Provider>> {
  const names = new Set([...Object.keys(KNOWN_PROVIDERS), ...Object.keys(settings.providers)]);
  const providers: Record<string, Provider> = {};
  for (const name of names) {
    const found = providerNamed(name, settings);
    if (found === null) continue;
    const { wire, base_url: baseUrl, env_key: variable } = found;
    const key = variable === undefined ? null : (env[variable] ?? "");
    providers[name] = { wire, baseUrl, key, ...(variable && { keySource: variable }) };
  }
  return providers;
}

/**
 * Whether a model can be asked: its provider is known, its key is in the environment, and a person has
 * named that provider. A project's files may choose among the providers that a person uses; that a key
 * happens to be in the environment is no leave to use it. `chosen` are models that a person has named.
 * Faults: `config`.
 */
export function checkModel(
  model: string,
  settings: Settings,
  env: NodeJS.ProcessEnv,
  chosen: readonly (string | null)[],
): Result<void> {
  const name = providerOf(model);
  if (name === "" || name.length === model.length - 1) {
    const mend = `such as ${Object.keys(settings.providers)[0] ?? "local"}/some-model`;
    return fail(fault("config", "a model is written provider/model", model, mend));
  }
  const provider = providerNamed(name, settings);
  if (provider === null) {
    const configured = Object.keys(settings.providers).join(", ") || "none";
    const known = Object.keys(KNOWN_PROVIDERS).join(", ");
    const mend = `configured: ${configured}; known: ${known}; add [providers.${name}] to config.toml`;
    return fail(fault("config", `there is no provider "${name}"`, model, mend));
  }
  const isNamed =
    Object.hasOwn(settings.providers, name) ||
    chosen.some((each) => each !== null && providerOf(each) === name);
  if (!isNamed) {
    const mend = `to agree, name it yourself: with -m, or as model in your own config.toml`;
    return fail(
      fault("config", `a project chose provider "${name}", and you have not`, model, mend),
    );
  }
  const variable = provider.env_key;
  if (variable === undefined || env[variable]) return ok(undefined);
  return fail(
    fault("config", `the key of provider "${name}" is not set`, variable, `export ${variable}=…`),
  );
}

/** Whether a limit in money, of this name, can be kept: it takes a price. Fault: `config`. */
export function checkPrice(
  model: string,
  limitMicroUsd: number,
  models: ModelOverrides,
  name = "cost_per_session",
): Result<void> {
  if (limitMicroUsd === 0 || hasPrice(model, models)) return ok(undefined);
  const what = `${name} cannot be kept, for the model's price is not known`;
  const mend = `set input_price and output_price (0 if it is free) under [models."${model}"] in your own config.toml`;
  return fail(fault("config", what, model, mend));
}

function providerOf(model: string): string {
  return model.slice(0, Math.max(0, model.indexOf("/")));
}
