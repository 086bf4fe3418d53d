import type { AssistantMessage, Message } from "@dev/protocol";
import { expect, test } from "vitest";
import { type Asked, askOnce, openEndpoint } from "../endpoint.ts";
import {
  messageOf,
  PLAIN,
  SAID,
  type Spoken,
  saying,
  streaming,
  type WireNotation,
} from "./notation.ts";

/** What a provider wants back with its reply: it comes back, and only to the model that wrote it. */
export function carry({ wire, stream, whole, carries }: WireNotation): void {
  const hear = async (spoken: Spoken, opaqueBytes?: number): Promise<Asked> => {
    await using endpoint = await openEndpoint(streaming(...stream(spoken)));
    const limits = opaqueBytes === undefined ? {} : { opaqueBytes };
    return await askOnce({ wire, url: endpoint.url, limits });
  };
  /** The body of the ask after a reply, to the model that gave it or to another. */
  const bodyAfter = async (
    message: AssistantMessage,
    model = "test/some/model",
  ): Promise<string> => {
    await using endpoint = await openEndpoint(streaming(...stream(PLAIN)));
    const results = message.calls.map(
      ({ ref }): Message => ({ kind: "tool", ref, text: "done", failed: false }),
    );
    const messages: readonly Message[] = [
      { kind: "user", text: "Hello", images: [] },
      message,
      ...results,
    ];
    const asked = await askOnce({ wire, url: endpoint.url, ask: { messages, model } });
    expect(asked.answer.kind).toBe("reply");
    return endpoint.bodies[0] ?? "";
  };

  test("what a provider wants back comes back, in front of what it led to", async () => {
    const message = messageOf(await hear(SAID));
    const body = await bodyAfter(message);
    const at = body.indexOf(SAID.secret);
    expect(at >= 0).toBe(carries);
    expect(message.opaque === "").toBe(!carries);
    expect(at).toBeLessThan(body.indexOf("Grüße"));
    expect(at).toBeLessThan(body.indexOf('"a1"'));
  });

  test("a whole answer that is no stream carries the same", async () => {
    await using endpoint = await openEndpoint(saying(200, whole(SAID)));
    const message = messageOf(await askOnce({ wire, url: endpoint.url }));
    expect(message.opaque).toBe(messageOf(await hear(SAID)).opaque);
  });

  test("another model is not given it, and is given all the rest", async () => {
    const message = messageOf(await hear(SAID));
    const body = await bodyAfter(message, "test/another");
    expect(body).not.toContain(SAID.secret);
    expect(body).toBe(await bodyAfter({ ...message, opaque: "" }, "test/another"));
  });

  test("what another wire wrote, or nobody, is left out", async () => {
    const message = messageOf(await hear(SAID));
    const plain = await bodyAfter({ ...message, opaque: "" });
    const elsewhere = { wire: "another", model: "test/some/model", items: [SAID.secret] };
    for (const opaque of [JSON.stringify(elsewhere), "{", "[]", "null", SAID.secret]) {
      expect(await bodyAfter({ ...message, opaque })).toBe(plain);
    }
  });

  test("what is too long is left out, and the reply stands", async () => {
    const { answer } = await hear(SAID, 20);
    expect(answer).toMatchObject({ kind: "reply", text: SAID.text, opaque: "" });
  });

  test("a reply without reasoning carries nothing", async () => {
    expect(messageOf(await hear(PLAIN)).opaque).toBe("");
  });
}
