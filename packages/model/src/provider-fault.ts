import { type Fault, type FaultCode, fault } from "@dev/protocol";
import { display } from "./display.ts";
import { fieldsOf } from "./json.ts";
import type { Provider } from "./router.ts";

/** A fault of one try, and whether the same request may fare better in a while. */
export type Trouble = { readonly fault: Fault; readonly again: boolean };

/** Who is asked: what faults are about. */
export type Endpoint = {
  readonly name: string;
  readonly provider: Provider;
  readonly url: URL;
};

/** What a provider said about an error, as far as it said it in fields. */
export type ProviderError = {
  readonly message: string;
  /** Its `code` and `type`, the more exact one first. */
  readonly names: readonly string[];
  /** An HTTP status that it gave as the code; 0 if it did not. */
  readonly status: number;
};

/** Makes the fault of an endpoint; `said` is what the provider wrote, and is cleaned here. */
export function trouble(
  endpoint: Endpoint,
  code: FaultCode,
  what: string,
  said: string,
  mend: string,
  again: boolean,
): Trouble {
  const shown = display(said, endpoint.provider.key);
  const message = shown === "" ? what : `${what}: ${shown}`;
  const subject = display(endpoint.url.origin + endpoint.url.pathname, endpoint.provider.key);
  return { fault: fault(code, message, subject, mend), again };
}

/** Reads an error from JSON: `{error}`, `{message}`, `{detail}`, or a list with one of these. */
export function readProviderError(value: unknown): ProviderError | null {
  if (Array.isArray(value)) return readProviderError(value[0]);
  const body = fieldsOf(value);
  if (body === null) return null;
  const inner = body.error ?? body.detail ?? value;
  if (typeof inner === "string") return { message: inner, names: [], status: 0 };
  const error = fieldsOf(Array.isArray(inner) ? inner[0] : inner);
  if (error === null) return null;
  const message = error.message ?? error.msg;
  const names = [error.code, error.type, error.status].filter(
    (name): name is string => typeof name === "string",
  );
  const status = [error.code, error.status].map(Number).find(isStatus) ?? 0;
  if (typeof message !== "string" && names.length === 0 && status === 0) return null;
  return { message: typeof message === "string" ? message : "", names, status };
}

/** The fault of an HTTP answer other than 2xx: by its status, and by the names in its body. */
export function statusTrouble(endpoint: Endpoint, status: number, body: string): Trouble {
  const error = parseError(body);
  const said = error?.message || (body.trimStart().startsWith("<") ? "" : body);
  const named = nameOf(error);
  // A name may be more exact than the status, but only these make another fault of it.
  if (named?.exact) return namedTrouble(endpoint, named, `HTTP ${status}`, said);
  return byStatus(endpoint, status, said);
}

/** The fault of an error that a provider reports inside a 2xx answer. */
export function reportedTrouble(endpoint: Endpoint, error: ProviderError): Trouble {
  const named = nameOf(error);
  if (named !== null) return namedTrouble(endpoint, named, "the provider failed", error.message);
  if (error.status !== 0) return byStatus(endpoint, error.status, error.message);
  return trouble(endpoint, "overloaded", "the provider failed", error.message, LATER, true);
}

const LATER = "try again later";
const SHORTEN = "shorten the conversation, or use a model with a longer context";

type Named = { readonly code: FaultCode; readonly again: boolean; readonly exact: boolean };

const exactly = (code: FaultCode): Named => ({ code, again: false, exact: true });
const roughly = (code: FaultCode, again: boolean): Named => ({ code, again, exact: false });

/** What providers call their errors. Data: a new name is a new line. */
const NAMES: ReadonlyMap<string, Named> = new Map([
  ["context_length_exceeded", exactly("context_overflow")],
  ["exceed_context_size_error", exactly("context_overflow")],
  ["model_context_window_exceeded", exactly("context_overflow")],
  ["request_too_large", exactly("context_overflow")],
  ["content_filter", exactly("model_refused")],
  ["content_policy_violation", exactly("model_refused")],
  ["image_content_policy_violation", exactly("model_refused")],
  ["invalid_prompt", roughly("model_refused", false)],
  // The account's money, not its pace: waiting does not bring it back.
  ["insufficient_quota", exactly("rate_limited")],
  ["billing_hard_limit_reached", exactly("rate_limited")],
  ["billing_error", exactly("rate_limited")],
  ["rate_limit_exceeded", roughly("rate_limited", true)],
  ["rate_limit_error", roughly("rate_limited", true)],
  ["too_many_requests", roughly("rate_limited", true)],
  ["RESOURCE_EXHAUSTED", roughly("rate_limited", true)],
  ["overloaded_error", roughly("overloaded", true)],
  ["engine_overloaded", roughly("overloaded", true)],
  ["server_is_overloaded", roughly("overloaded", true)],
  ["slow_down", roughly("overloaded", true)],
  ["service_unavailable_error", roughly("overloaded", true)],
  ["server_error", roughly("overloaded", true)],
  ["api_error", roughly("overloaded", true)],
  ["internal_error", roughly("overloaded", true)],
  ["internal_server_error", roughly("overloaded", true)],
  ["service_unavailable", roughly("overloaded", true)],
  ["timeout_error", roughly("overloaded", true)],
  ["invalid_api_key", roughly("unauthorized", false)],
  ["authentication_error", roughly("unauthorized", false)],
  ["permission_error", roughly("unauthorized", false)],
  ["model_not_found", roughly("bad_request", false)],
  // Written under another account or key: the router asks once more without it.
  ["invalid_encrypted_content", { code: "bad_request", again: true, exact: true }],
  ["invalid_image", roughly("bad_request", false)],
  ["invalid_image_format", roughly("bad_request", false)],
  ["invalid_base64_image", roughly("bad_request", false)],
  ["image_parse_error", roughly("bad_request", false)],
  ["image_too_large", roughly("bad_request", false)],
  ["image_too_small", roughly("bad_request", false)],
  ["unsupported_image_media_type", roughly("bad_request", false)],
  ["not_found_error", roughly("bad_request", false)],
  ["invalid_request_error", roughly("bad_request", false)],
]);

/** How the messages of an `invalid_request_error` begin that has no other name for a prompt too long. */
const OVERFLOWS: readonly string[] = [
  "prompt is too long",
  "input length and `max_tokens` exceed context limit",
];

function nameOf(error: ProviderError | null): Named | null {
  const isOverflow = OVERFLOWS.some((start) => error?.message.startsWith(start));
  if (isOverflow && error?.names.includes("invalid_request_error")) {
    return exactly("context_overflow");
  }
  for (const name of error?.names ?? []) {
    const named = NAMES.get(name);
    if (named !== undefined) return named;
  }
  return null;
}

function namedTrouble(endpoint: Endpoint, named: Named, what: string, said: string): Trouble {
  return trouble(endpoint, named.code, what, said, mendOf(endpoint, named), named.again);
}

function mendOf(endpoint: Endpoint, named: Named): string {
  switch (named.code) {
    case "context_overflow":
      return SHORTEN;
    case "unauthorized":
      return keyMend(endpoint);
    case "rate_limited":
      return named.again ? LATER : `see to the credit of the account at ${endpoint.name}`;
    case "overloaded":
      return LATER;
    case "model_refused":
      return "say it in other words, or use another model";
    default:
      return `check the model's name and the settings of provider ${endpoint.name}`;
  }
}

function byStatus(endpoint: Endpoint, status: number, said: string): Trouble {
  const what = `HTTP ${status}`;
  const make = (code: FaultCode, mend: string, again: boolean) =>
    trouble(endpoint, code, what, said, mend, again);
  if (status === 401 || status === 403) return make("unauthorized", keyMend(endpoint), false);
  if (status === 402) {
    return make("unauthorized", `see to the credit of the account at ${endpoint.name}`, false);
  }
  if (status === 413) return make("context_overflow", SHORTEN, false);
  if (status === 429) return make("rate_limited", LATER, true);
  if (status === 408 || status === 425) return make("overloaded", LATER, true);
  // 501 and 505: the server cannot do this at all, so that waiting is in vain.
  if (status >= 500) return make("overloaded", LATER, status !== 501 && status !== 505);
  if (status >= 400) {
    const mend = `check the model's name and the base URL of provider ${endpoint.name}`;
    return make("bad_request", mend, false);
  }
  return make("garbled", `check the base URL of provider ${endpoint.name}`, false);
}

/** The fault of a redirect: it is not followed, because the key would go along. */
export function redirectTrouble(endpoint: Endpoint, status: number, location: string): Trouble {
  const mend = `if that is where it now lives, set the base URL of provider ${endpoint.name} to it`;
  const what = `HTTP ${status}: a redirect, which is not followed`;
  return trouble(endpoint, "config", what, location, mend, false);
}

function keyMend(endpoint: Endpoint): string {
  const source = endpoint.provider.keySource;
  if (source !== undefined) return `set ${source} to a key of provider ${endpoint.name}`;
  return `check the key of provider ${endpoint.name} in the settings`;
}

function parseError(body: string): ProviderError | null {
  try {
    return readProviderError(JSON.parse(body));
  } catch {
    return null;
  }
}

function isStatus(value: number): boolean {
  return Number.isInteger(value) && value >= 400 && value <= 599;
}
