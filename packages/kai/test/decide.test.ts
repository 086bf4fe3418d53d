import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createSocketServer, type Server } from "node:net";
import { describe, expect, test } from "vitest";
import { chosenSite, siteQuestions, turnQuestions } from "../src/decide/fix.ts";
import { type DecisionLimits, httpTransport } from "../src/decide/http.ts";
import { DECIDE_LIMITS, type Decisions, openDecisions, type Questions } from "../src/decide.ts";

const NEVER = new AbortController().signal;
const SITES = siteQuestions(["add in a.py", "sub in b.py"]);

type Answer = (response: ServerResponse, body: Body, request: IncomingMessage) => void;
type Body = {
  readonly model: string;
  readonly state: string;
  readonly questions: Readonly<Record<string, { type: string; criteria?: unknown }>>;
};

type Service = AsyncDisposable & { readonly url: string; readonly bodies: readonly Body[] };

async function service(answer: Answer): Promise<Service> {
  const bodies: Body[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = JSON.parse(Buffer.concat(chunks).toString("utf8"));
      bodies.push(body);
      answer(response, body, request);
    });
  });
  return { ...(await listening(server)), bodies };
}

async function listening(server: Server): Promise<AsyncDisposable & { readonly url: string }> {
  const sockets = new Set<{ destroy(): void }>();
  server.on("connection", (socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

function decisions(url: string, limits: Partial<DecisionLimits> = {}, now = { ms: 0 }): Decisions {
  const transport = httpTransport({ baseUrl: url, key: "k-123" }, { ...DECIDE_LIMITS, ...limits });
  return openDecisions({ transport, model: "decider", nowMs: () => now.ms });
}

/** An answer of the right kind to every question, the last option always. */
function wellAnswered({ questions }: Body): object {
  const answers = Object.entries(questions).map(([name, { type, criteria }]) => {
    if (type === "noul") return [name, { type, noul: 0.9 }];
    const keys = Object.keys(criteria as object);
    const shares = Object.fromEntries(keys.map((key, at) => [key, at === keys.length - 1 ? 1 : 0]));
    const common = { type, probabilities: shares, confidence: 1 };
    if (type === "choice") return [name, { ...common, choice: keys.at(-1) }];
    return [name, { ...common, score: keys.length - 1 }];
  });
  return { model: "decider-1", answers: Object.fromEntries(answers) };
}

function json(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
}

describe("a service that answers", () => {
  test("is asked all of a state's questions in one request, and decides", async () => {
    await using server = await service((response, body) => json(response, wellAnswered(body)));
    const decided = await decisions(server.url).decide("fix.site@1", "it fails", SITES, NEVER);
    expect(decided).toMatchObject({ source: "kai", why: "", program: "fix.site@1" });
    expect(decided.answers.site).toEqual({
      kind: "choice",
      choice: "site_2",
      probabilities: { site_1: 0, site_2: 1 },
      confidence: 1,
    });
    expect(decided.answers.effort.choice).toBe("full");
    expect(chosenSite(decided)).toBe(1);
    expect(server.bodies).toHaveLength(1);
    expect(Object.keys(server.bodies[0] ?? {})).toEqual(["model", "state", "questions"]);
    expect(Object.keys(server.bodies[0]?.questions ?? {})).toEqual([
      "fix.site@1.site",
      "fix.site@1.action",
      "fix.site@1.effort",
    ]);
  });

  test("answers with probabilities, scores and shares of a yes", async () => {
    await using server = await service((response, body) => json(response, wellAnswered(body)));
    const questions = turnQuestions({ stop: "stop", go: "go on" }, "stop");
    const decided = await decisions(server.url).decide("fix.turn@1", "x", questions, NEVER);
    expect(decided.answers.done).toEqual({
      kind: "noul",
      probability: 0.9,
      confidence: expect.closeTo(0.8),
    });
    expect(decided.answers.risk).toEqual({
      kind: "score",
      score: 3,
      probabilities: [0, 0, 0, 1],
      confidence: 1,
    });
  });

  test("is asked at the path below its base, with its key", async () => {
    const seen: unknown[] = [];
    await using server = await service((response, body, { method, url, headers }) => {
      seen.push(method, url, headers.authorization);
      json(response, wellAnswered(body));
    });
    await decisions(`${server.url}/`).decide("fix.site@1", "x", SITES, NEVER);
    expect(seen).toEqual(["POST", "/v1/decisions", "Bearer k-123"]);
  });
});

test("a service may take longer to answer than to be reached", async () => {
  await using server = await service((response, body) => {
    setTimeout(() => json(response, wellAnswered(body)), 400);
  });
  const asked = decisions(server.url, { connectMs: 200 });
  expect((await asked.decide("fix.site@1", "x", SITES, NEVER)).source).toBe("kai");
});

describe("a rule decides, and says why", () => {
  test("where no service is configured", async () => {
    const none = openDecisions({ transport: null, model: "", nowMs: () => 0 });
    const decided = await none.decide("fix.site@1", "x", SITES, NEVER);
    expect(decided).toMatchObject({ source: "rule", why: "no decision service is configured" });
    expect(decided.answers.site).toMatchObject({ choice: "site_1", confidence: 0 });
    expect(chosenSite(decided)).toBeNull();
  });

  const site =
    (answer: object): Answer =>
    (response, body) => {
      const { answers } = wellAnswered(body) as { answers: object };
      json(response, { answers: { ...answers, "fix.site@1.site": answer } });
    };
  const shares = { site_1: 0, site_2: 1 };

  test.each<[string, Answer]>([
    ["garbled", (response) => response.end("no JSON")],
    ["garbled", (response) => json(response, { answers: {} })],
    ["garbled", (response) => json(response, null)],
    ["garbled", site({ choice: "site_9", probabilities: shares, confidence: 1 })],
    ["garbled", site({ choice: "site_2", probabilities: { site_2: 1 }, confidence: 1 })],
    ["garbled", site({ choice: "site_2", probabilities: { ...shares, site_1: 2 }, confidence: 1 })],
    ["garbled", site({ choice: "site_2", probabilities: shares })],
    ["garbled", site({ choice: "__proto__", probabilities: shares, confidence: 1 })],
    ["unauthorized", (response) => response.writeHead(401).end()],
    ["rate_limited", (response) => response.writeHead(429).end()],
    ["overloaded", (response) => response.writeHead(503).end()],
    ["bad_request", (response) => response.writeHead(302, { location: "/elsewhere" }).end()],
    ["unreachable", (response) => response.destroy()],
    ["unreachable", (response) => response.writeHead(200).write("{", () => response.destroy())],
    ["too_large", (response) => response.end("x".repeat(DECIDE_LIMITS.responseBytes + 1))],
  ])("where the service is %s", async (code, answer) => {
    await using server = await service(answer);
    const decided = await decisions(server.url).decide("fix.site@1", "x", SITES, NEVER);
    expect(decided.source).toBe("rule");
    expect(decided.why).toMatch(new RegExp(`^${code}: `));
    expect(decided.why).not.toContain("k-123");
  });

  test("where its address is none", async () => {
    const decided = await decisions("file:///x").decide("fix.site@1", "x", SITES, NEVER);
    expect(decided.why).toMatch(/^config: /);
  });

  test("where the answer does not come in time", async () => {
    await using server = await service(() => {});
    const slow = decisions(server.url, { totalMs: 50 });
    const decided = await slow.decide("fix.site@1", "x", SITES, NEVER);
    expect(decided.why).toBe("silent: no answer within 50 ms");
  });

  test("where no connection comes about in time", async () => {
    // It takes the connection and never speaks TLS.
    await using deaf = await listening(createSocketServer());
    const late = decisions(deaf.url.replace("http:", "https:"), { connectMs: 50 });
    const decided = await late.decide("fix.site@1", "x", SITES, NEVER);
    expect(decided.why).toBe("unreachable: no connection within 50 ms");
  });
});

describe("an outage", () => {
  test("leaves that program alone for a while, and no other", async () => {
    const now = { ms: 0 };
    let isDown = true;
    await using server = await service((response, body) => {
      if (isDown) response.writeHead(503).end();
      else json(response, wellAnswered(body));
    });
    const asked = decisions(server.url, {}, now);
    const turn: Questions = turnQuestions({ stop: "stop" }, "stop");
    await asked.decide("fix.site@1", "x", SITES, NEVER);
    isDown = false;
    const again = await asked.decide("fix.site@1", "x", SITES, NEVER);
    expect(again).toMatchObject({ source: "rule", why: expect.stringContaining("left alone") });
    expect((await asked.decide("fix.turn@1", "x", turn, NEVER)).source).toBe("kai");
    expect(server.bodies).toHaveLength(2);
    now.ms += 60_000;
    expect((await asked.decide("fix.site@1", "x", SITES, NEVER)).source).toBe("kai");
  });

  test("of a key that is refused lasts", async () => {
    const now = { ms: 0 };
    await using server = await service((response) => response.writeHead(401).end());
    const asked = decisions(server.url, {}, now);
    await asked.decide("fix.site@1", "x", SITES, NEVER);
    now.ms += 86_400_000;
    await asked.decide("fix.site@1", "x", SITES, NEVER);
    expect(server.bodies).toHaveLength(1);
  });
});

test("an abort ends the request at once", async () => {
  const over = new AbortController();
  await using server = await service(() => over.abort("enough"));
  await expect(decisions(server.url).decide("fix.site@1", "x", SITES, over.signal)).rejects.toBe(
    "enough",
  );
});

test("more questions than the limit are a bug", async () => {
  const one = { kind: "noul", ask: "is it?", rule: 0.5 } as const;
  const count = DECIDE_LIMITS.questionCount + 1;
  const many = Object.fromEntries(Array.from({ length: count }, (_, at) => [`q${at}`, one]));
  await expect(
    decisions("http://127.0.0.1:9").decide("fix.site@1", "x", many, NEVER),
  ).rejects.toThrow("more than 100 questions");
});
