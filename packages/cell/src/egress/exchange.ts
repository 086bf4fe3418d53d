import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { type ActionId, fail, ok, type Result } from "@dev/protocol";
import type { Ground } from "./ground.ts";
import { framing, headersDown, headersUp } from "./headers.ts";
import { authorityOf, isSameTarget, readTarget, type Target } from "./host.ts";
import { Meter } from "./meter.ts";
import type { Origins, Route } from "./origin.ts";
import { type RequestPath, readPath } from "./path.ts";
import { beginDraft, type Draft, failure, type Refusal, refusal } from "./record.ts";
import { redaction } from "./redaction.ts";
import { type Allowance, judgeRequest } from "./rule.ts";
import { type Credential, readCredential } from "./secret.ts";

/** Where a request was read from, and what is known of it there. */
export type Asked = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The target that the connection was opened to over TLS; null: the request names it. */
  readonly tunnel: Target | null;
  readonly action: ActionId | null;
};

/** Performs one HTTP request that is seen whole, from its head to its record. */
export async function exchange(ground: Ground, origins: Origins, asked: Asked): Promise<void> {
  const { request, response, action } = asked;
  const draft = beginDraft(ground.seams.now(), action, request.method ?? "");
  const stop = new AbortController();
  let stopped: string | null = null;
  const meter = new Meter(ground.seams.limits, (why) => {
    stopped ??= why;
    stop.abort();
  });
  response.once("close", () => stop.abort());
  const done = await judged(ground, asked, draft, async (route, path, credential) =>
    forward(origins, route, { ...asked, path, credential, draft, meter }, stop.signal),
  );
  meter.close();
  const end = done.ok ? null : stopped === null ? done.fault : { ...done.fault, reason: stopped };
  ground.record(draft, meter, end);
  if (end !== null) refuse(request, response, end);
}

/** Says why not, in words that a person finds in the output of what they ran. */
function refuse(request: IncomingMessage, response: ServerResponse, why: Refusal): void {
  // What has begun can only be cut off: it must not look whole.
  if (response.headersSent) {
    response.destroy();
    return;
  }
  // What is left of a body is not read for the sake of the next request.
  const isWhole = framing(request.headers)?.kind === "none";
  response.writeHead(why.status, {
    "content-type": "text/plain; charset=utf-8",
    ...(!isWhole && { connection: "close" }),
  });
  response.end(`The cell's network: ${why.reason}\n`);
}

type Go = (
  route: Route,
  path: RequestPath,
  credential: Credential | null,
) => Promise<Result<undefined, Refusal>>;

async function judged(
  ground: Ground,
  { request, tunnel }: Asked,
  draft: Draft,
  go: Go,
): Promise<Result<undefined, Refusal>> {
  const target = targetOf(request, tunnel);
  if (!target.ok) return target;
  draft.host = target.value.target.host.name;
  draft.port = target.value.target.port;
  const path = readPath(target.value.path);
  if (path === null) return fail(refusal(400, "the path leads elsewhere than it seems to"));
  draft.path = path.forms[0] ?? "";
  if (!ground.admit()) return fail(refusal(429, "there were too many requests (requestCount)"));
  if (framing(request.headers) === null) {
    return fail(refusal(400, "it says in two ways, or none, how long its body is"));
  }
  const judgement = judgeRequest(ground.allowances, target.value.target, {
    method: draft.method,
    path,
    isSecure: tunnel !== null,
  });
  if (judgement.kind === "refused") return fail(refusal(403, judgement.reason));
  const { allowance } = judgement;
  draft.rule = allowance.name;
  const credential = await credentialOf(ground, allowance);
  if (!credential.ok) return credential;
  const route = { target: target.value.target, allowance, isSecure: tunnel !== null };
  return go(route, path, credential.value);
}

type Read = { readonly target: Target; readonly path: string };

/** The target and the path, where all that says what they are says the same. */
function targetOf(
  { url = "", headers, rawHeaders }: IncomingMessage,
  tunnel: Target | null,
): Result<Read, Refusal> {
  const hosts = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === "host");
  if (hosts.length > 1) return fail(refusal(400, "it has two Host headers"));
  const usualPort = tunnel === null ? 80 : 443;
  const parts = /^http:\/\/([^/?#]*)([^#]*)$/i.exec(url);
  if (tunnel === null && parts === null) {
    return fail(refusal(400, "a proxy is asked with a whole http:// URL, or by CONNECT"));
  }
  if (tunnel !== null && !url.startsWith("/")) return fail(refusal(400, "it names no path"));
  const target = tunnel ?? readTarget(parts?.[1] ?? "", usualPort);
  if (target === null) return fail(refusal(400, "it names no host in a way that can be judged"));
  const host = headers.host === undefined ? null : readTarget(headers.host, usualPort);
  const isBare = headers.host === undefined && tunnel === null;
  if (!isBare && (host === null || !isSameTarget(host, target))) {
    return fail(refusal(400, "its Host header names another host than it is for"));
  }
  const path = tunnel === null ? (parts?.[2] ?? "") : url;
  return ok({ target, path: path.startsWith("/") ? path : `/${path}` });
}

async function credentialOf(
  { seams }: Ground,
  { rule }: Allowance,
): Promise<Result<Credential | null, Refusal>> {
  if (rule.secret === null) return ok(null);
  const read = await readCredential(rule.secret, seams.variable);
  if (read.ok) return read;
  return fail(failure(`the rule's secret: ${read.fault.message} (${read.fault.subject})`));
}

type Forwarded = Asked & {
  readonly path: RequestPath;
  readonly credential: Credential | null;
  readonly draft: Draft;
  readonly meter: Meter;
};

async function forward(
  origins: Origins,
  route: Route,
  { request, response, path, credential, draft, meter }: Forwarded,
  signal: AbortSignal,
): Promise<Result<undefined, Refusal>> {
  const frame = framing(request.headers);
  const host = authorityOf(route.target, route.isSecure ? 443 : 80);
  const headers = headersUp(request.rawHeaders, host, credential);
  if (frame?.kind === "length") headers["content-length"] = frame.value;
  if (frame?.kind === "chunked") headers["transfer-encoding"] = "chunked";
  const isRepeatable = frame?.kind === "none" && /^(GET|HEAD)$/.test(draft.method);
  if (!isRepeatable) request.on("data", (chunk: Buffer) => meter.sent(chunk.length));
  const answered = await origins.ask(
    route,
    { method: draft.method, path: path.written, headers },
    (upstream) => {
      if (isRepeatable) upstream.end();
      // An origin may answer before it has read all, and close: that is no reason to drop its answer.
      else request.pipe(upstream);
    },
    isRepeatable,
    signal,
  );
  if (!answered.ok) return answered;
  const answer = answered.value;
  draft.status = answer.statusCode ?? 0;
  const found = (): void => {
    draft.remark = "the answer had the secret in it, which was blotted out";
  };
  const coding = answer.headers["content-encoding"] ?? "identity";
  if (credential !== null && coding !== "identity") {
    answer.destroy();
    return fail(failure(`the answer is packed (${coding}): no secret would be found in it`));
  }
  const down = headersDown(answer.rawHeaders, credential, found);
  const length = answer.headers["content-length"];
  if (length !== undefined) down["content-length"] = length;
  response.sendDate = false;
  try {
    response.writeHead(draft.status, down);
  } catch (error) {
    // What the one end reads as a head, the other would not write as one.
    answer.destroy();
    return fail(failure(`the answer's head is garbled: ${wordsOf(error)}`));
  }
  answer.on("data", (chunk: Buffer) => meter.received(chunk.length));
  const middle = credential === null ? [] : [redaction(credential.needles, found)];
  try {
    await pipeline([answer, ...middle, response]);
    return ok(undefined);
  } catch (error) {
    return fail(failure(`it broke off: ${wordsOf(error)}`));
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
