import { NO_USAGE, never } from "@dev/protocol";
import { retryAfterMs } from "./backoff.ts";
import type { Model } from "./catalog.ts";
import type { Connections } from "./connections.ts";
import { type Ending, exchange, type Sink, type Wanted } from "./exchange.ts";
import type { RouterLimits } from "./limit.ts";
import {
  type Endpoint,
  redirectTrouble,
  reportedTrouble,
  statusTrouble,
  type Trouble,
  trouble,
} from "./provider-fault.ts";
import type { Answered, Ask, Delta } from "./router.ts";
import { openEventReader } from "./sse.ts";
import type { Reply, ReplyState, Step, Wire } from "./wires/wire.ts";

/** An answer before anyone has put a price on it. */
export type Heard = Omit<Answered, "costMicroUsd"> & {
  /** The bytes of the request that an answer had begun to; 0 when none had. */
  readonly requestBytes: number;
};

/** How one try went. */
export type Attempt = {
  readonly answered: Heard;
  /** Whether another try is sensible: nothing of an answer had come, and the fault may pass. */
  readonly again: boolean;
  /** The wait that the provider asked for. */
  readonly askedMs: number | null;
  /** How long it was waited in vain. */
  readonly silentMs: number;
};

/** What one try needs besides the ask. */
export type Means = {
  readonly endpoint: Endpoint;
  readonly wire: Wire;
  readonly known: Model;
  readonly connections: Connections;
  readonly limits: RouterLimits;
};

/** Puts an ask to a provider once. Rejects only if `onDelta` throws. */
export async function attempt(
  means: Means,
  ask: Ask,
  model: string,
  onDelta: (delta: Delta) => void,
  signal: AbortSignal,
): Promise<Attempt> {
  const { endpoint, wire, known, limits } = means;
  const { key } = endpoint.provider;
  const body = wire.body(ask, model, known);
  const sizeBytes = Buffer.byteLength(body);
  if (sizeBytes > limits.requestBytes) {
    const what = `the request has more than ${limits.requestBytes} bytes`;
    const mend = "shorten the conversation";
    return failed(trouble(endpoint, "context_overflow", what, "", mend, false), NOTHING, 0);
  }
  const reply = wire.open(ask, onDelta, limits);
  const intake = openIntake(reply, limits);
  const posting = { url: endpoint.url, headers: wire.headers(key), body };
  const ending = await exchange(posting, intake.sink, means.connections, limits, signal);
  if (ending.kind === "end") intake.end();
  const state = reply.state();
  const requestBytes = state.begun || state.answer !== null ? sizeBytes : 0;
  const found = troubleOf(endpoint, ending, intake, state, limits);
  if (found === "cancelled") {
    return {
      answered: {
        answer: { kind: "cancelled", partial: state.partial },
        usage: state.usage,
        requestBytes,
      },
      ...NEVER_AGAIN,
    };
  }
  if (found !== null) return failed(found, state, requestBytes, ending, limits);
  if (state.answer === null) throw new Error("no answer, and no trouble either");
  return {
    answered: { answer: state.answer, usage: state.usage, requestBytes },
    ...NEVER_AGAIN,
  };
}

const NEVER_AGAIN = { again: false, askedMs: null, silentMs: 0 } as const;

const NOTHING: ReplyState = { answer: null, partial: "", usage: NO_USAGE, begun: false };

function failed(
  { fault: what, again }: Trouble,
  { partial, usage, begun }: ReplyState,
  requestBytes: number,
  ending?: Ending,
  limits?: RouterLimits,
): Attempt {
  return {
    answered: { answer: { kind: "failed", fault: what, partial }, usage, requestBytes },
    again: again && !begun,
    askedMs: ending?.kind === "refused" ? retryAfterMs(ending.headers) : null,
    silentMs: ending?.kind === "silent" && limits ? limits[ending.limit] : 0,
  };
}

/** What came of the body's bytes. */
type Intake = {
  readonly sink: Sink;
  /** Says that the body has ended. */
  readonly end: () => void;
  /** The last step that counted; null while there was none. */
  readonly last: () => Step | null;
  /** How the body began, and whether its type says that it is a stream of events. */
  readonly head: () => string;
  readonly isStream: () => boolean;
};

/** Takes a body for events or, if it begins as JSON does, for one whole answer. */
function openIntake(reply: Reply, limits: RouterLimits): Intake {
  let contentType = "";
  let head = "";
  let last: Step | null = null;
  let wanted: Wanted = "more";
  let mode: "unknown" | "events" | "whole" = "unknown";
  const chunks: Uint8Array[] = [];
  const take = (step: Step) => {
    const next = wantedAfter(step);
    // An answer that has finished is whole: what goes wrong behind it takes nothing from it.
    const isLate = wanted === "drain" && next === "stop";
    if (!isLate) last = step;
    wanted = isLate ? "done" : next === "more" && wanted === "drain" ? "drain" : next;
  };
  const events = openEventReader(limits.eventBytes, (data) => {
    if (wanted === "more" || wanted === "drain") take(reply.event(data));
  });
  return {
    sink: {
      begin(type) {
        contentType = type;
      },
      push(chunk) {
        if (head.length < HEAD_LIMIT) head += Buffer.from(chunk).toString("utf8", 0, HEAD_LIMIT);
        if (mode === "unknown") mode = modeOf(head);
        if (mode === "unknown") return "more";
        if (mode === "whole") chunks.push(chunk);
        else if (!events.push(chunk)) {
          take({ kind: "too_large", what: `an event of more than ${limits.eventBytes} bytes` });
        }
        return wanted;
      },
    },
    end() {
      if (mode === "whole") take(reply.whole(Buffer.concat(chunks).toString("utf8")));
      else events.end();
    },
    last: () => last,
    head: () => head,
    isStream: () => contentType.startsWith("text/event-stream"),
  };
}

/** Of a body, what is kept to be shown. */
const HEAD_LIMIT = 512;

function modeOf(head: string): "unknown" | "events" | "whole" {
  const first = head.trimStart()[0];
  if (first === undefined) return "unknown";
  return first === "{" || first === "[" ? "whole" : "events";
}

function wantedAfter(step: Step): Wanted {
  switch (step.kind) {
    case "more":
      return "more";
    case "finished":
      return "drain";
    case "done":
      return "done";
    default:
      return "stop";
  }
}

/** What stands between a try and its answer; null if nothing does. */
function troubleOf(
  endpoint: Endpoint,
  ending: Ending,
  intake: Intake,
  state: ReplyState,
  limits: RouterLimits,
): Trouble | "cancelled" | null {
  if (ending.kind === "aborted") return "cancelled";
  const last = intake.last();
  if (last?.kind === "error") return reportedTrouble(endpoint, last.error);
  if (last?.kind === "garbled") return garbled(endpoint, last.what);
  if (last?.kind === "too_large") {
    return trouble(endpoint, "too_large", `the provider sent ${last.what}`, "", "", false);
  }
  // Whatever became of the connection afterwards, a whole answer is one.
  if (state.answer !== null) return null;
  switch (ending.kind) {
    case "broken":
      return cut(endpoint);
    case "end":
    case "done":
    case "stop":
      return state.begun || intake.isStream() || intake.head().trim() === ""
        ? cut(endpoint)
        : garbled(endpoint, intake.head());
    case "refused": {
      const { status, headers } = ending;
      return status >= 300 && status <= 399
        ? redirectTrouble(endpoint, status, headers.location ?? "")
        : statusTrouble(endpoint, status, ending.body);
    }
    case "unreachable":
      return unreachable(endpoint, ending.code);
    case "silent":
      return silent(endpoint, ending.limit, limits);
    case "too_large": {
      const what = `the provider sent more than ${limits.responseBytes} bytes`;
      return trouble(endpoint, "too_large", what, "", "", false);
    }
    default:
      return never(ending);
  }
}

function cut(endpoint: Endpoint): Trouble {
  const what = "the stream ended before the answer did";
  return trouble(endpoint, "cut", what, "", "ask again: what had arrived is no answer", false);
}

function garbled(endpoint: Endpoint, said: string): Trouble {
  const what = "the answer is not of the API that the settings name";
  const mend = `check the base URL of provider ${endpoint.name}`;
  return trouble(endpoint, "garbled", what, said, mend, false);
}

function silent(
  endpoint: Endpoint,
  limit: "firstByteMs" | "idleMs" | "replyMs",
  limits: RouterLimits,
): Trouble {
  const seconds = limits[limit] / 1000;
  const what = {
    firstByteMs: `no answer began within ${seconds} s`,
    idleMs: `the answer stopped coming for ${seconds} s`,
    replyMs: `the answer did not end within ${seconds} s`,
  }[limit];
  return trouble(endpoint, "silent", what, "", "see whether the provider is well", true);
}

/** Codes of the system for what may pass: a server that starts, a network that comes back. */
const PASSING: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENETDOWN",
  "EAI_AGAIN",
]);

function unreachable(endpoint: Endpoint, code: string): Trouble {
  // The parser's own codes: there is a server, and it speaks no HTTP.
  if (code.startsWith("HPE_")) return garbled(endpoint, `not HTTP (${code})`);
  const what = `no connection (${code})`;
  const mend = `see whether it runs, and check the base URL of provider ${endpoint.name}`;
  return trouble(endpoint, "unreachable", what, "", mend, PASSING.has(code));
}
