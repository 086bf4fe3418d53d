import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Fault } from "@dev/protocol";
import {
  type Answered,
  type Ask,
  type Delta,
  type ModelOverrides,
  openRouter,
  type Provider,
  ROUTER_LIMITS,
  type RouterLimits,
} from "../src/index.ts";

export const KEY = 'sk-test/+"0123456789abcdef';

/** A server on loopback whose answers a test writes; it closes with `await using`. */
export type Endpoint = AsyncDisposable & {
  readonly url: string;
  readonly bodies: readonly string[];
  readonly connectionCount: () => number;
  /** Resolves when a client has let go of an answer that was not at its end. */
  readonly dropped: Promise<void>;
};

export type Answer = (response: ServerResponse, request: IncomingMessage, count: number) => void;

export async function openEndpoint(answer: Answer): Promise<Endpoint> {
  const bodies: string[] = [];
  let connections = 0;
  let drop = () => {};
  const dropped = new Promise<void>((resolve) => {
    drop = resolve;
  });
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      bodies.push(Buffer.concat(chunks).toString("utf8"));
      answer(response, request, bodies.length);
    });
    response.on("close", () => response.writableFinished || drop());
  });
  server.on("connection", () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    bodies,
    connectionCount: () => connections,
    dropped,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** What came of an ask, and what was seen of it on the way. */
export type Asked = Answered & {
  readonly deltas: readonly Delta[];
  /** The fault that each try came after. */
  readonly attempts: readonly (Fault | null)[];
  /** The waits between tries; none of them takes any time here. */
  readonly waits: readonly number[];
};

export type Asking = {
  readonly wire: Provider["wire"];
  readonly url: string;
  readonly ask?: Partial<Ask>;
  readonly key?: string | null;
  readonly limits?: Partial<RouterLimits>;
  readonly models?: ModelOverrides;
  readonly signal?: AbortSignal;
  readonly onDelta?: (delta: Delta) => void;
  readonly onAttempt?: (attempt: number) => void;
  readonly onSleep?: () => void;
  /** Awaited between the answer and the closing of the router, which drops every connection. */
  readonly before?: Promise<void>;
};

/** Asks a provider named `test` once, through a router of its own. */
export async function askOnce(asking: Asking): Promise<Asked> {
  const deltas: Delta[] = [];
  const attempts: (Fault | null)[] = [];
  const waits: number[] = [];
  const { wire, url: baseUrl, key = KEY, signal = new AbortController().signal } = asking;
  const router = openRouter(
    { test: { wire, baseUrl, key, keySource: "TEST_KEY" } },
    {
      sleep: async (ms) => {
        waits.push(ms);
        asking.onSleep?.();
      },
      random: () => 0.5,
      limits: { ...ROUTER_LIMITS, ...asking.limits },
    },
    asking.models,
  );
  try {
    const answered = await router.ask(
      askOf(asking.ask ?? {}),
      (delta) => {
        deltas.push(delta);
        asking.onDelta?.(delta);
      },
      async (attempt, after) => {
        attempts.push(after);
        asking.onAttempt?.(attempt);
      },
      signal,
    );
    await asking.before;
    return { ...answered, deltas, attempts, waits };
  } finally {
    router.close();
  }
}

export function askOf(part: Partial<Ask>): Ask {
  return {
    model: "test/some/model",
    effort: "default",
    prelude: "You are Dev.",
    messages: [{ kind: "user", text: "Hello", images: [] }],
    tools: [],
    ...part,
  };
}

/** The fault of a failed answer; anything else fails the test. */
export function faultOf({ answer }: Pick<Answered, "answer">): Fault {
  if (answer.kind !== "failed") throw new Error(`not failed: ${JSON.stringify(answer)}`);
  return answer.fault;
}
