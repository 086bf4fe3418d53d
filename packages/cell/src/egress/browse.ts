import type { IncomingMessage } from "node:http";
import {
  type ActionId,
  type BrowseOp,
  fail,
  fault,
  type Outcome,
  ok,
  type Result,
} from "@dev/protocol";
import type { Ground } from "./ground.ts";
import { headersDown, headersUp } from "./headers.ts";
import { authorityOf, readTarget } from "./host.ts";
import { Meter } from "./meter.ts";
import type { Origins, Route } from "./origin.ts";
import { type RequestPath, readPath } from "./path.ts";
import { beginDraft, failure, type Refusal, refusal } from "./record.ts";
import { redactText } from "./redaction.ts";
import { judgeRequest } from "./rule.ts";
import { type Credential, readCredential } from "./secret.ts";

/** What is asked for, and how much of the answer is kept. */
export type Browsing = {
  readonly op: BrowseOp;
  readonly action: ActionId;
  readonly limitBytes: number;
};

/**
 * Performs a request outside the cell, by the rules, checks, limits and records of its network. A
 * redirect is answered with, and not followed: it is for another request, and another judgement.
 */
export async function browse(
  ground: Ground,
  origins: Origins,
  browsing: Browsing,
  signal: AbortSignal,
): Promise<Outcome> {
  const { op, action } = browsing;
  const draft = beginDraft(ground.seams.now(), action, op.method.toUpperCase());
  const stop = new AbortController();
  let stopped: string | null = null;
  const meter = new Meter(ground.seams.limits, (why) => {
    stopped ??= why;
    stop.abort();
  });
  const until = AbortSignal.any([signal, stop.signal]);
  const read = readUrl(op);
  const done = read.ok
    ? await ask(ground, origins, browsing, { ...read.value, draft, meter }, until)
    : read;
  meter.close();
  const end: Refusal | null = done.ok
    ? null
    : { ...done.fault, reason: stopped ?? done.fault.reason };
  ground.record(draft, meter, end);
  if (done.ok) return done.value;
  if (signal.aborted) return { kind: "cancelled", known: "the request was given up" };
  const reason = end?.reason ?? "";
  if (end?.kind === "refused") return { kind: "refused", rule: "network", reason };
  const isSafe = /^(GET|HEAD|OPTIONS)$/.test(draft.method);
  // Nobody can say whether the origin has done what it was asked for.
  return isSafe || draft.rule === ""
    ? { kind: "failed", fault: fault("unreachable", reason, op.url) }
    : { kind: "unknown", known: reason };
}

type Read = { readonly path: RequestPath; readonly route: Omit<Route, "allowance"> };
type Begun = Read & { readonly draft: ReturnType<typeof beginDraft>; readonly meter: Meter };

function readUrl({ url }: BrowseOp): Result<Read, Refusal> {
  const parts = /^(https?):\/\/([^/?#]*)([^#]*)/i.exec(url);
  const isSecure = parts?.[1]?.toLowerCase() === "https";
  const target = readTarget(parts?.[2] ?? "", isSecure ? 443 : 80);
  if (target === null) return fail(refusal(400, "it names no host in a way that can be judged"));
  const rest = parts?.[3] ?? "";
  const path = readPath(rest.startsWith("/") ? rest : `/${rest}`);
  if (path === null) return fail(refusal(400, "the path leads elsewhere than it seems to"));
  return ok({ path, route: { target, isSecure } });
}

async function ask(
  ground: Ground,
  origins: Origins,
  { op, limitBytes }: Browsing,
  { path, route, draft, meter }: Begun,
  signal: AbortSignal,
): Promise<Result<Outcome, Refusal>> {
  const { target, isSecure } = route;
  const { method } = draft;
  draft.host = target.host.name;
  draft.port = target.port;
  draft.path = path.forms[0] ?? "";
  if (!ground.admit()) return fail(refusal(429, "there were too many requests (requestCount)"));
  if (!/^[A-Z]{1,20}$/.test(method) || method === "CONNECT") {
    return fail(refusal(400, "it names no method"));
  }
  const raw = op.headers.flatMap(({ name, value }) => [name, value]);
  const { headerBytes } = ground.seams.limits;
  const flaw = raw.find((text) => !SAYABLE.test(text) || text.length > headerBytes);
  if (flaw !== undefined || op.headers.some(({ name }) => !/^[A-Za-z0-9-]+$/.test(name))) {
    return fail(refusal(400, "one of its headers is none"));
  }
  const judged = judgeRequest(ground.allowances, target, { method, path, isSecure });
  if (judged.kind === "refused") return fail(refusal(403, judged.reason));
  const { allowance } = judged;
  draft.rule = allowance.name;
  const { secret } = allowance.rule;
  const credential =
    secret === null ? ok(null) : await readCredential(secret, ground.seams.variable);
  if (!credential.ok) return fail(failure(`the rule's secret: ${credential.fault.message}`));
  const headers = headersUp(raw, authorityOf(target, isSecure ? 443 : 80), credential.value);
  // Text is wanted, and nothing here unpacks it.
  headers["accept-encoding"] = "identity";
  const body = Buffer.from(op.body);
  if (body.length > 0) headers["content-length"] = String(body.length);
  meter.sent(body.length);
  const answered = await origins.ask(
    { ...route, allowance },
    { method, path: path.written, headers },
    (request) => request.end(body),
    body.length === 0 && /^(GET|HEAD)$/.test(method),
    signal,
  );
  if (!answered.ok) return answered;
  draft.status = answered.value.statusCode ?? 0;
  const found = (): void => {
    draft.remark = "the answer had the secret in it, which was blotted out";
  };
  return answerOf(answered.value, credential.value, limitBytes, meter, found);
}

/** What a header may hold (RFC 9110, 5.5). */
const SAYABLE = /^[\t\x20-\x7e\x80-\xff]*$/;

async function answerOf(
  answer: IncomingMessage,
  credential: Credential | null,
  limitBytes: number,
  meter: Meter,
  found: () => void,
): Promise<Result<Outcome, Refusal>> {
  const coding = answer.headers["content-encoding"] ?? "identity";
  if (coding !== "identity") {
    answer.destroy();
    return fail(failure(`the answer is packed (${coding}), though it was not to be`));
  }
  const chunks: Buffer[] = [];
  let keptBytes = 0;
  let cutBytes = 0;
  const needles = credential?.needles ?? [];
  // What the limit cuts off may be the rest of a secret: so much more is looked at, and dropped.
  const lookBytes = limitBytes + Math.max(0, ...needles.map((needle) => needle.length));
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      meter.received(chunk.length);
      const taken = chunk.subarray(0, Math.max(0, lookBytes - keptBytes));
      chunks.push(taken);
      keptBytes += taken.length;
      cutBytes += chunk.length - taken.length;
    }
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    return fail(failure(`it broke off: ${words}`));
  }
  const text = redactText(Buffer.concat(chunks).toString("latin1"), needles, found);
  const bytes = Buffer.from(text, "latin1");
  const body = bytes.subarray(0, limitBytes);
  const headers = Object.entries(headersDown(answer.rawHeaders, credential, found)).flatMap(
    ([name, value]) => [value].flat().map((each) => ({ name, value: each })),
  );
  const result = {
    ...{ kind: "browse" as const, status: answer.statusCode ?? 0, headers },
    ...{ body: body.toString("utf8"), cutBytes: cutBytes + bytes.length - body.length },
  };
  return ok({ kind: "ok", result });
}
