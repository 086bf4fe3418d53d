import { expect, test } from "vitest";
import { type Answer, askOnce, faultOf, openEndpoint } from "../endpoint.ts";
import { events, heardOver, SAID, saying, streaming, type WireNotation } from "./notation.ts";

export function tries(notation: WireNotation): void {
  const { wire, stream, says } = notation;
  const HEARD = heardOver(notation);
  const thenReply =
    (count: number, first: Answer): Answer =>
    (response, request, nth) =>
      (nth <= count ? first : streaming(...stream(SAID)))(response, request, nth);

  test.each<[string, Answer]>([
    ["rate_limited", saying(429, "")],
    ["overloaded", saying(503, "")],
    ["unreachable", (response) => response.destroy()],
    ["overloaded", saying(529, "")],
    ...says.rate_limited.events.map((event): [string, Answer] => [
      "rate_limited",
      streaming(event),
    ]),
    ...says.overloaded.events.map((event): [string, Answer] => ["overloaded", streaming(event)]),
  ])("%s is tried again when nothing had come", async (code, first) => {
    await using endpoint = await openEndpoint(thenReply(2, first));
    const asked = await askOnce({ wire, url: endpoint.url });
    expect(asked.answer).toEqual(HEARD);
    expect(asked.attempts.map((after) => after?.code)).toEqual([undefined, code, code]);
    expect(asked.waits).toEqual([375, 750]);
  });

  test("nobody there is tried four times", async () => {
    const endpoint = await openEndpoint(saying(200, ""));
    await endpoint[Symbol.asyncDispose]();
    const asked = await askOnce({ wire, url: endpoint.url });
    expect(faultOf(asked)).toMatchObject({ code: "unreachable" });
    expect(faultOf(asked).message).toContain("ECONNREFUSED");
    expect(asked.attempts).toHaveLength(4);
  });

  test("silence is tried again within the total, and no further", async () => {
    await using endpoint = await openEndpoint(() => {});
    const limits = { firstByteMs: 30, retryTotalMs: 75, backoffMs: 2 };
    const asked = await askOnce({ wire, url: endpoint.url, limits });
    expect(faultOf(asked).code).toBe("silent");
    expect(asked.attempts.map((after) => after?.code)).toEqual([undefined, "silent", "silent"]);
  });

  test("the wait that a provider asks for is kept", async () => {
    await using endpoint = await openEndpoint(
      thenReply(1, saying(429, "", { "retry-after": "7" })),
    );
    const asked = await askOnce({ wire, url: endpoint.url });
    expect(asked.answer.kind).toBe("reply");
    expect(asked.waits).toEqual([7_375]);
  });

  test("a provider that asks for too long a wait is not asked again", async () => {
    await using endpoint = await openEndpoint(saying(429, "", { "retry-after": "90" }));
    const asked = await askOnce({ wire, url: endpoint.url });
    expect(faultOf(asked).mend).toContain("90 s");
    expect(asked.attempts).toHaveLength(1);
  });

  test.each<[string, Answer]>([
    ["bad_request", saying(400, "")],
    ["unauthorized", saying(401, "")],
    ["rate_limited", saying(429, '{"error":{"code":"insufficient_quota"}}')],
    ["overloaded", saying(501, "")],
    ["garbled", saying(200, "<html>")],
  ])("what can never work is not tried again (%s)", async (code, answer) => {
    await using endpoint = await openEndpoint(answer);
    const asked = await askOnce({ wire, url: endpoint.url });
    expect([faultOf(asked).code, endpoint.bodies.length]).toEqual([code, 1]);
  });

  test("a try is announced before it is sent", async () => {
    await using endpoint = await openEndpoint(thenReply(1, saying(500, "")));
    const sent: number[] = [];
    const onAttempt = () => void sent.push(endpoint.bodies.length);
    await askOnce({ wire, url: endpoint.url, onAttempt });
    expect(sent).toEqual([0, 1]);
  });
}

export function stops({ wire, text }: WireNotation): void {
  test("an abort ends a stream at once, keeps its text and closes its socket", async () => {
    await using endpoint = await openEndpoint((response) => {
      response.writeHead(200, events);
      response.write(text("half a"));
    });
    const stop = new AbortController();
    const onDelta = () => stop.abort();
    const { url, dropped: before } = endpoint;
    const asked = await askOnce({ wire, url, signal: stop.signal, onDelta, before });
    expect(asked.answer).toEqual({ kind: "cancelled", partial: "half a" });
  });

  test("an abort ends the wait for an answer", async () => {
    const stop = new AbortController();
    await using endpoint = await openEndpoint(() => stop.abort());
    const { url, dropped: before } = endpoint;
    const asked = await askOnce({ wire, url, signal: stop.signal, before });
    expect(asked.answer).toEqual({ kind: "cancelled", partial: "" });
  });

  test("an abort between tries ends them", async () => {
    await using endpoint = await openEndpoint(saying(503, ""));
    const stop = new AbortController();
    const onSleep = () => stop.abort();
    const asked = await askOnce({ wire, url: endpoint.url, signal: stop.signal, onSleep });
    expect(asked.answer.kind).toBe("cancelled");
    expect(endpoint.bodies).toHaveLength(1);
  });

  test("an ask that is aborted beforehand sends nothing", async () => {
    await using endpoint = await openEndpoint(saying(200, ""));
    const asked = await askOnce({ wire, url: endpoint.url, signal: AbortSignal.abort() });
    expect(asked.answer).toEqual({ kind: "cancelled", partial: "" });
    expect([endpoint.bodies, asked.attempts]).toEqual([[], []]);
  });
}
