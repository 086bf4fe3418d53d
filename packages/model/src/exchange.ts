import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Connections } from "./connections.ts";
import type { RouterLimits } from "./limit.ts";

/** One request to a provider, ready to be sent. */
export type Posting = {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

/** How a request ended. */
export type Ending =
  /** The whole body was taken, as HTTP announced it. */
  | { readonly kind: "end" }
  /** The sink had what it wanted, or could not go on. */
  | { readonly kind: "done" | "stop" }
  /** A status other than 2xx, with as much of its body as the limit lets in. */
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly headers: IncomingHttpHeaders;
      readonly body: string;
    }
  /** The connection was not made, or broke before the answer began; `code` is the system's. */
  | { readonly kind: "unreachable"; readonly code: string }
  /** The connection broke in the middle of the body. */
  | { readonly kind: "broken" }
  | { readonly kind: "silent"; readonly limit: "firstByteMs" | "idleMs" | "replyMs" }
  | { readonly kind: "too_large" }
  | { readonly kind: "aborted" };

/** Takes the bytes of a 2xx answer as they come. */
export type Sink = {
  readonly begin: (contentType: string) => void;
  readonly push: (chunk: Uint8Array) => Wanted;
};

/**
 * What a sink wants of the rest: all of it; what comes within `drainMs`; nothing, for it was all
 * there; nothing, for it is of no use.
 */
export type Wanted = "more" | "drain" | "done" | "stop";

/** Sends a request and gives its answer to the sink. Rejects only if the sink throws. */
export async function exchange(
  posting: Posting,
  sink: Sink,
  connections: Connections,
  limits: RouterLimits,
  signal: AbortSignal,
): Promise<Ending> {
  if (signal.aborted) return { kind: "aborted" };
  const request = await connections.request(posting.url, {
    method: "POST",
    headers: { ...posting.headers, "content-length": Buffer.byteLength(posting.body) },
  });
  return new Promise((resolve, reject) => {
    let state: "asked" | "answered" | "ended" = "asked";
    const watch = openWatch(limits, (limit) => finish({ kind: "silent", limit }));
    const onAbort = () => finish({ kind: "aborted" });
    const finish = (ending: Ending) => {
      if (state === "ended") return;
      state = "ended";
      watch.close();
      signal.removeEventListener("abort", onAbort);
      // Only a body that was taken to its end gives its connection back.
      if (ending.kind === "done") drain(request, limits.drainMs);
      else if (ending.kind !== "end") request.destroy();
      resolve(ending);
    };
    request.on("error", (error) => {
      if (state === "answered") finish({ kind: "broken" });
      else finish({ kind: "unreachable", code: codeOf(error) });
    });
    request.on("response", (response) => {
      if (state === "asked") state = "answered";
      const taker = takerOf(response, sink, limits, finish);
      response.on("data", (chunk: Buffer) => {
        if (state === "ended") return;
        try {
          const wanted = taker.push(chunk);
          if (wanted === "done" || wanted === "stop") finish({ kind: wanted });
          else watch.heard(wanted === "drain");
        } catch (error) {
          reject(error);
          finish({ kind: "stop" });
        }
      });
      response.on("end", taker.end);
      // A body that stops short of its announced end says so here, and `end` never comes.
      response.on("error", () => finish({ kind: "broken" }));
      response.on("close", () => finish({ kind: "broken" }));
    });
    signal.addEventListener("abort", onAbort);
    if (signal.aborted) onAbort();
    else send(request, posting.body);
  });
}

/** Lets the rest of a body pass in the background, so that its connection can be used again. */
function drain(request: ClientRequest, limitMs: number): void {
  const timer = setTimeout(() => request.destroy(), limitMs);
  timer.unref();
  request.on("close", () => clearTimeout(timer));
}

function send(request: ClientRequest, body: string): void {
  request.setNoDelay(true);
  request.end(body);
}

type Taker = { readonly push: (chunk: Buffer) => Wanted; readonly end: () => void };

function takerOf(
  response: IncomingMessage,
  sink: Sink,
  limits: RouterLimits,
  finish: (ending: Ending) => void,
): Taker {
  const status = response.statusCode ?? 0;
  if (status < 200 || status > 299) return refusalOf(response, status, limits.refusalBytes, finish);
  let takenBytes = 0;
  sink.begin(response.headers["content-type"] ?? "");
  return {
    push(chunk) {
      takenBytes += chunk.length;
      if (takenBytes > limits.responseBytes) {
        finish({ kind: "too_large" });
        return "stop";
      }
      return sink.push(chunk);
    },
    end: () => finish({ kind: "end" }),
  };
}

/** Reads the body of a refusal up to a limit: what it says is of use, what follows is not. */
function refusalOf(
  response: IncomingMessage,
  status: number,
  limitBytes: number,
  finish: (ending: Ending) => void,
): Taker {
  const chunks: Buffer[] = [];
  let takenBytes = 0;
  const end = () =>
    finish({
      kind: "refused",
      status,
      headers: response.headers,
      body: Buffer.concat(chunks).subarray(0, limitBytes).toString("utf8"),
    });
  // Its status is known, so that a body that breaks off is a refusal all the same.
  response.on("error", end);
  return {
    push(chunk) {
      chunks.push(chunk);
      takenBytes += chunk.length;
      if (takenBytes >= limitBytes) end();
      return "more";
    },
    end,
  };
}

/** Watches over one exchange: its first byte, the gaps between bytes, and the whole. */
function openWatch(
  limits: RouterLimits,
  onLimit: (limit: "firstByteMs" | "idleMs" | "replyMs") => void,
): { readonly heard: (drains: boolean) => void; readonly close: () => void } {
  const whole = setTimeout(() => onLimit("replyMs"), limits.replyMs);
  let gap = setTimeout(() => onLimit("firstByteMs"), limits.firstByteMs);
  let state: "waiting" | "reading" | "draining" | "closed" = "waiting";
  const enter = (next: "reading" | "draining", limitMs: number) => {
    state = next;
    clearTimeout(gap);
    gap = setTimeout(() => onLimit("idleMs"), limitMs);
  };
  return {
    heard(drains) {
      if (state === "closed" || state === "draining") return;
      if (drains) enter("draining", limits.drainMs);
      else if (state === "waiting") enter("reading", limits.idleMs);
      else gap.refresh();
    },
    close() {
      state = "closed";
      clearTimeout(whole);
      clearTimeout(gap);
    },
  };
}

function codeOf(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : error.name;
}
