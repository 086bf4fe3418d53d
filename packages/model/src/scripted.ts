import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { FixedStep, Script, ScriptedFault, ScriptedRequest, ScriptStep } from "./script.ts";
import { halfCallPieces, readRequest, replyPieces } from "./scripted-wire.ts";

export * from "./script.ts";

/** A model that says what a script says: a server on loopback that speaks chat completions. */
export interface Scripted {
  /** The base URL, such as `http://127.0.0.1:40001/v1`. */
  readonly url: string;
  /** What it was asked so far, in order of arrival. */
  readonly requests: readonly ScriptedRequest[];
  /** What went against the script: a request beyond its end, or not as a step expects it. */
  readonly errors: readonly string[];
  /** Resolves when the request of this count, from 1, has arrived. */
  request(count: number): Promise<ScriptedRequest>;
  /** Lets the steps of this gate go on, those to come too. */
  release(gate: string): void;
  close(): Promise<void>;
}

export type ScriptedOptions = {
  /** 0, or left out: any free one. */
  readonly port?: number;
};

/**
 * Starts a scripted model. Each request takes a step. One that the script has no step left for is
 * answered 501 with a message that says so, which is not worth another try, and kept in `errors`.
 */
export async function startScripted(
  script: Script,
  options: ScriptedOptions = {},
): Promise<Scripted> {
  const { port = 0 } = options;
  const play = openPlay(script);
  const server = createServer((request, response) => {
    play.serve(request, response).catch((error: unknown) => {
      play.errors.push(`request failed: ${String(error)}`);
      response.destroy();
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${bound}/v1`,
    requests: play.requests,
    errors: play.errors,
    request: play.request,
    release: play.release,
    close: () => closeServer(server),
  };
}

type Play = {
  readonly requests: ScriptedRequest[];
  readonly errors: string[];
  readonly serve: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  readonly request: (count: number) => Promise<ScriptedRequest>;
  readonly release: (gate: string) => void;
};

function openPlay(script: Script): Play {
  const requests: ScriptedRequest[] = [];
  const errors: string[] = [];
  const arrivals: { count: number; tell: (request: ScriptedRequest) => void }[] = [];
  const gates = new Map<string, { opened: Promise<void>; open: () => void }>();
  const gateOf = (name: string) => {
    let gate = gates.get(name);
    if (gate === undefined) {
      let open = () => {};
      const opened = new Promise<void>((resolve) => {
        open = resolve;
      });
      gate = { opened, open };
      gates.set(name, gate);
    }
    return gate;
  };
  const left = [...script];
  const stepFor = (request: ScriptedRequest): FixedStep | string => {
    const step = takeStep(left, request);
    if (step === undefined) {
      return `the script has ${script.length} steps, and none is left for request ${request.count}`;
    }
    const fixed = typeof step === "function" ? step(request) : step;
    const missing = missingOf(fixed, request);
    return missing === null ? fixed : `request ${request.count} is not as expected: ${missing}`;
  };
  return {
    requests,
    errors,
    async serve(incoming, response) {
      const body = await bodyOf(incoming);
      const request = readRequest(incoming, body, requests.length + 1);
      requests.push(request);
      for (const { tell } of arrivals.filter(({ count }) => count === request.count)) tell(request);
      const step = stepFor(request);
      if (typeof step === "string") {
        errors.push(step);
        return refuse(response, step);
      }
      if (step.gate !== undefined) await gateOf(step.gate).opened;
      await perform(step, request, response);
    },
    request: (count) =>
      new Promise((tell) => {
        const before = requests[count - 1];
        if (before === undefined) arrivals.push({ count, tell });
        else tell(before);
      }),
    release: (name) => gateOf(name).open(),
  };
}

/** Takes the step that a request gets from those that are left. */
function takeStep(left: ScriptStep[], request: ScriptedRequest): ScriptStep | undefined {
  const first = request.messages.find(({ role }) => role === "user")?.content ?? "";
  const textOf = (step: ScriptStep): string | undefined =>
    typeof step === "function" ? undefined : step.when;
  const isOwn = (when: string | undefined): boolean => when !== undefined && first.includes(when);
  const own = left.findIndex((step) => isOwn(textOf(step)));
  const at = own < 0 ? left.findIndex((step) => textOf(step) === undefined) : own;
  return at < 0 ? undefined : left.splice(at, 1)[0];
}

/** What a request lacks of what its step expects; null if nothing. */
function missingOf(step: FixedStep, request: ScriptedRequest): string | null {
  const { expect } = step;
  if (expect === undefined) return null;
  if (typeof expect === "function") return expect(request) ? null : "the predicate says no";
  const start = request.messages.findLastIndex(({ role }) => role === "assistant") + 1;
  const last = request.messages
    .slice(start)
    .map(({ content }) => content)
    .join("\n");
  const missing = expect.find((text) => !last.includes(text));
  return missing === undefined ? null : `${JSON.stringify(missing)} is not in ${last.slice(-2000)}`;
}

async function perform(
  step: FixedStep,
  request: ScriptedRequest,
  response: ServerResponse,
): Promise<void> {
  if ("reply" in step) {
    const usage = step.usage ?? { input: Math.ceil(request.body.length / 4), output: 1 };
    return stream(response, replyPieces(step.reply, usage, request.count), 0);
  }
  return misbehave(step.fault, request, response);
}

async function misbehave(
  fault: ScriptedFault,
  request: ScriptedRequest,
  response: ServerResponse,
): Promise<void> {
  switch (fault.kind) {
    case "refuse":
      response.destroy();
      return;
    case "hang":
      return;
    case "hang_after":
    case "cut": {
      const whole = replyPieces(fault.reply, { input: 1, output: 1 }, request.count).join("");
      const bytes = Buffer.from(whole).subarray(0, fault.bytes);
      head(response);
      await new Promise<void>((sent) => response.write(bytes, () => sent()));
      if (fault.kind === "cut") response.destroy();
      return;
    }
    case "half_call":
      return stream(response, halfCallPieces(fault.call, fault.end, request.count), 0);
    case "status":
      response.writeHead(fault.status, { "content-type": "application/json", ...fault.headers });
      response.end(fault.body ?? errorBody(`scripted HTTP ${fault.status}`, "scripted"));
      return;
    case "garbage":
      return stream(response, ["data: {this is no JSON}\n\n"], 0);
    case "slow":
      return stream(
        response,
        replyPieces(fault.reply, { input: 1, output: 1 }, request.count),
        fault.gapMs,
      );
  }
}

/** Writes a stream of events, each piece on its own, `gapMs` apart. */
async function stream(
  response: ServerResponse,
  pieces: readonly string[],
  gapMs: number,
): Promise<void> {
  head(response);
  for (const piece of pieces) {
    if (gapMs > 0) await new Promise((resolve) => setTimeout(resolve, gapMs));
    if (response.destroyed) return;
    response.write(piece);
  }
  response.end();
}

function head(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.flushHeaders();
}

function refuse(response: ServerResponse, message: string): void {
  response.writeHead(501, { "content-type": "application/json" });
  response.end(errorBody(message, "script"));
}

function errorBody(message: string, type: string): string {
  return JSON.stringify({ error: { message, type } });
}

/** The body of a request, as large as they come. */
const BODY_LIMIT_BYTES = 128 * 1024 * 1024;

async function bodyOf(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let takenBytes = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    takenBytes += chunk.length;
    if (takenBytes > BODY_LIMIT_BYTES) throw new Error(`more than ${BODY_LIMIT_BYTES} bytes`);
  }
  return Buffer.concat(chunks).toString("utf8");
}

async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeAllConnections();
  await closed;
}
