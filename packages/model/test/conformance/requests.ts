import type { AssistantMessage, Message } from "@dev/protocol";
import { expect, test } from "vitest";
import { openRouter, ROUTER_LIMITS, toolSpecs } from "../../src/index.ts";
import { askOf, askOnce, faultOf, openEndpoint } from "../endpoint.ts";
import { messageOf, PLAIN, SAID, saying, streaming, type WireNotation } from "./notation.ts";

export function limits({ wire, stream, text }: WireNotation): void {
  test.each([
    ["eventBytes", 200, "an event of more than 200"],
    ["replyBytes", 100, "a reply of more than 100"],
    ["responseBytes", 500, "more than 500"],
    ["callCount", 1, "more than 1 calls"],
  ] as const)("%s has an end", async (limit, value, message) => {
    const long =
      limit === "callCount" ? stream(SAID) : [text("x".repeat(60)), text("y".repeat(700))];
    await using endpoint = await openEndpoint(streaming(...long));
    const asked = await askOnce({ wire, url: endpoint.url, limits: { [limit]: value } });
    expect(faultOf(asked).code).toBe("too_large");
    expect(faultOf(asked).message).toContain(message);
  });

  test("a request that is too long is not sent", async () => {
    await using endpoint = await openEndpoint(saying(200, ""));
    const asked = await askOnce({ wire, url: endpoint.url, limits: { requestBytes: 50 } });
    expect(faultOf(asked).code).toBe("context_overflow");
    expect(endpoint.bodies).toEqual([]);
  });

  test("of a refusal no more is read than the limit", async () => {
    await using endpoint = await openEndpoint((response) => {
      response.writeHead(400);
      response.write("z".repeat(100_000));
    });
    const asked = await askOnce({ wire, url: endpoint.url });
    expect(faultOf(asked).code).toBe("bad_request");
    expect(faultOf(asked).message.length).toBeLessThan(400);
  });
}

export function requests({ wire, stream }: WireNotation): void {
  const conversation = (reply: AssistantMessage): readonly Message[] => [
    {
      kind: "user",
      text: "Look at this \ud800",
      images: [{ mediaType: "image/png", data: "aGk=" }],
    },
    reply,
    { kind: "tool", ref: "a1", text: "contents", failed: false },
    { kind: "tool", ref: "b2", text: "no such program", failed: true },
    { kind: "assistant", text: "", reasoning: "only thought", calls: [], opaque: "" },
    { kind: "user", text: "go on", images: [] },
    {
      kind: "assistant",
      text: "I shall",
      reasoning: "",
      opaque: "",
      calls: [
        { ref: "c", op: { kind: "invalid", name: "no such", reason: "", arguments: '{"half' } },
      ],
    },
    { kind: "tool", ref: "c", text: "no", failed: true },
  ];

  test("each request of a conversation begins with the one before", async () => {
    await using first = await openEndpoint(streaming(...stream(SAID)));
    const messages = conversation(messageOf(await askOnce({ wire, url: first.url })));
    await using endpoint = await openEndpoint(streaming(...stream(PLAIN)));
    const tools = toolSpecs(["read", "exec"]);
    for (let count = 1; count <= messages.length; count++) {
      const ask = { messages: messages.slice(0, count), tools };
      const { answer } = await askOnce({ wire, url: endpoint.url, ask });
      expect(answer.kind).toBe("reply");
    }
    for (const [index, body] of endpoint.bodies.entries()) {
      const before = endpoint.bodies[index - 1] ?? "";
      expect(body.startsWith(before.replace(/[\]}]*$/, ""))).toBe(true);
      expect(body).not.toMatch(/\\ud[89a-f]/);
    }
    expect(endpoint.bodies).toHaveLength(messages.length);
    expect(JSON.parse(endpoint.bodies.at(-1) ?? "")).toMatchObject({ model: "some/model" });
  });

  test("asks share a connection, also after a stream's last word", async () => {
    await using endpoint = await openEndpoint(streaming(...stream(PLAIN)));
    const router = openRouter(
      { test: { wire, baseUrl: `${endpoint.url}/`, key: null } },
      { sleep: async () => {}, random: () => 0, limits: ROUTER_LIMITS },
    );
    const none = new AbortController().signal;
    for (let count = 0; count < 3; count++) {
      const { answer } = await router.ask(
        askOf({}),
        () => {},
        async () => {},
        none,
      );
      expect(answer.kind).toBe("reply");
    }
    router.close();
    expect(endpoint.connectionCount()).toBe(1);
  });
}
