import { request as plain } from "node:http";
import { request as secure } from "node:https";
import type { TLSSocket } from "node:tls";
import { type Fault, type FaultCode, fail, fault, never, ok, type Result } from "@dev/protocol";
import { DECIDE_LIMITS, type Question, readAnswers, type Transport } from "../decide.ts";

export type DecisionService = {
  /** Such as `http://127.0.0.1:8080/v1`. */
  readonly baseUrl: string;
  /** Sent as a bearer token; in no fault. */
  readonly key: string | null;
};

export type DecisionLimits = {
  readonly connectMs: number;
  readonly totalMs: number;
  readonly responseBytes: number;
};

/**
 * `POST` to `decisions` below the base URL: a model, a state, and questions by name as `{type,
 * instructions, criteria}`; answers come by the same names. Redirects are not followed. Faults:
 * `config`, `unreachable`, `silent`, `unauthorized`, `rate_limited`, `overloaded`, `bad_request`,
 * `too_large`, `garbled`.
 */
export function httpTransport(
  { baseUrl, key }: DecisionService,
  limits: DecisionLimits = DECIDE_LIMITS,
): Transport {
  return {
    async decide({ model, state, questions }, signal) {
      signal.throwIfAborted();
      const url = urlOf(baseUrl);
      if (url === null)
        return fail(fault("config", "the decision service's address is none", baseUrl));
      const named = Object.entries(questions).map(([name, each]) => [name, wireOf(each)]);
      const body = JSON.stringify({ model, state, questions: Object.fromEntries(named) });
      const posted = await post(url, key, body, limits, signal);
      if (!posted.ok) return posted;
      const said = parsed(posted.value);
      if (said === undefined)
        return fail(fault("garbled", "the service's answer is no JSON", url.host));
      return readAnswers(questions, said);
    },
  };
}

function urlOf(baseUrl: string): URL | null {
  if (!URL.canParse(baseUrl)) return null;
  const url = new URL(baseUrl);
  if (url.protocol !== "http:" && url.protocol !== "https:") return null;
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/decisions`;
  return url;
}

function wireOf(question: Question): object {
  const { kind: type, ask: instructions } = question;
  switch (question.kind) {
    case "choice":
      return { type, instructions, criteria: question.options };
    case "noul":
      return { type, instructions };
    case "score":
      return { type, instructions, criteria: question.levels };
    default:
      return never(question);
  }
}

/** The body of a 2xx answer. Rejects only when aborted. */
function post(
  url: URL,
  key: string | null,
  body: string,
  limits: DecisionLimits,
  signal: AbortSignal,
): Promise<Result<string>> {
  return new Promise((resolve, reject) => {
    const sending = (url.protocol === "https:" ? secure : plain)(url, {
      method: "POST",
      agent: false,
      headers: {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      },
    });
    const finish = (settle: () => void): void => {
      clearTimeout(connecting);
      clearTimeout(whole);
      signal.removeEventListener("abort", onAbort);
      sending.destroy();
      settle();
    };
    const end = (code: FaultCode, what: string): void =>
      finish(() => resolve(fail(faultOf(code, what, url))));
    const connecting = setTimeout(
      () => end("unreachable", `no connection within ${limits.connectMs} ms`),
      limits.connectMs,
    );
    const whole = setTimeout(
      () => end("silent", `no answer within ${limits.totalMs} ms`),
      limits.totalMs,
    );
    const onAbort = (): void => finish(() => reject(signal.reason));
    signal.addEventListener("abort", onAbort, { once: true });
    sending.on("socket", (socket) => {
      const isSecure = url.protocol === "https:";
      (socket as TLSSocket).once(isSecure ? "secureConnect" : "connect", () =>
        clearTimeout(connecting),
      );
    });
    sending.on("error", (error) => end("unreachable", `no connection (${codeOf(error)})`));
    sending.on("response", (response) => {
      const status = response.statusCode ?? 0;
      if (status < 200 || status > 299) {
        end(statusCode(status), `the decision service answers HTTP ${status}`);
        return;
      }
      const chunks: Buffer[] = [];
      let sizeBytes = 0;
      response.on("data", (chunk: Buffer) => {
        sizeBytes += chunk.length;
        chunks.push(chunk);
        if (sizeBytes > limits.responseBytes) {
          end("too_large", `the service sent more than ${limits.responseBytes} bytes`);
        }
      });
      response.on("error", () => end("unreachable", "the connection broke"));
      response.on("end", () => finish(() => resolve(ok(Buffer.concat(chunks).toString("utf8")))));
    });
    sending.end(body);
  });
}

function statusCode(status: number): FaultCode {
  if (status === 401 || status === 403) return "unauthorized";
  if (status === 429) return "rate_limited";
  return status >= 500 ? "overloaded" : "bad_request";
}

function faultOf(code: FaultCode, what: string, url: URL): Fault {
  return fault(code, what, url.host, "see whether the decision service is well");
}

function codeOf(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : error.name;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
