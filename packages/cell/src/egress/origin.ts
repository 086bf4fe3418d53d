import {
  Agent,
  type AgentOptions,
  type ClientRequest,
  request as httpRequest,
  type IncomingMessage,
} from "node:http";
import type { Duplex } from "node:stream";
import { fail, ok, type Result } from "@dev/protocol";
import { dial, secure } from "./dial.ts";
import type { Ground } from "./ground.ts";
import type { Headers } from "./headers.ts";
import type { Target } from "./host.ts";
import { failure, type Refusal } from "./record.ts";
import type { Allowance } from "./rule.ts";

/** Where a request goes, by which rule. */
export type Route = {
  readonly target: Target;
  readonly allowance: Allowance;
  readonly isSecure: boolean;
};

/** How long a connection to an origin is kept for the next request by the same rule. */
const KEPT_MS = 8_000;
const KEPT_COUNT = 8;

/** Connections to origins: each was judged as it was made, and serves one rule of one cell. */
export class Origins {
  readonly #ground: Ground;
  readonly #agents = new Map<string, Agent>();

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  /**
   * Begins a request and gives the answer's head. One without a body, and by a method that changes nothing, may
   * go over a connection that was kept, and again over a new one when that has died.
   */
  async ask(
    route: Route,
    asked: { readonly method: string; readonly path: string; readonly headers: Headers },
    onRequest: (request: ClientRequest) => void,
    isRepeatable: boolean,
    signal: AbortSignal,
  ): Promise<Result<IncomingMessage, Refusal>> {
    const { method, path, headers } = asked;
    for (let isAgain = false; ; isAgain = true) {
      const keeps = isRepeatable && !isAgain;
      const agent = keeps ? this.#agentOf(route) : this.#agent({}, route, signal);
      const request = httpRequest({ agent, method, path, headers, setHost: false, signal });
      const answer = answerTo(request);
      onRequest(request);
      const answered = await answer;
      if (answered.ok || !keeps || !request.reusedSocket || signal.aborted) return answered;
    }
  }

  close(): void {
    for (const agent of this.#agents.values()) agent.destroy();
    this.#agents.clear();
  }

  #agentOf(route: Route): Agent {
    const { target, allowance, isSecure } = route;
    const key = [
      isSecure,
      target.host.name,
      target.port,
      this.#ground.allowances.indexOf(allowance),
    ];
    const known = this.#agents.get(key.join());
    if (known !== undefined) return known;
    const keeping = { keepAlive: true, maxFreeSockets: KEPT_COUNT, timeout: KEPT_MS };
    const agent = this.#agent(keeping, route, NEVER);
    this.#agents.set(key.join(), agent);
    return agent;
  }

  #agent(options: AgentOptions, route: Route, signal: AbortSignal): Agent {
    const createConnection = (_: unknown, done: Connected): undefined => {
      void this.#connect(route, signal).then((made) => {
        if (made.ok) done(null, made.value);
        else done(new Error(made.fault.reason, { cause: made.fault }));
      }, done);
    };
    return Object.assign(new Agent(options), { createConnection });
  }

  async #connect(route: Route, signal: AbortSignal): Promise<Result<Duplex, Refusal>> {
    const socket = await dial(this.#ground, route.target, route.allowance, signal);
    if (!socket.ok || !route.isSecure) return socket;
    return secure(this.#ground, socket.value, route.target, signal);
  }
}

type Connected = (error: Error | null, stream?: Duplex) => void;

const NEVER: AbortSignal = new AbortController().signal;

function answerTo(request: ClientRequest): Promise<Result<IncomingMessage, Refusal>> {
  return new Promise((resolve) => {
    request.once("response", (response) => resolve(ok(response)));
    request.on("error", (error) => resolve(fail(refusalOf(error))));
    request.once("close", () => resolve(fail(failure("the origin closed the connection"))));
  });
}

function refusalOf(error: Error): Refusal {
  const { cause } = error;
  if (typeof cause === "object" && cause !== null && "kind" in cause) return cause as Refusal;
  const words = "code" in error ? String(error.code) : error.message;
  return failure(`the origin's answer broke off: ${words}`);
}
