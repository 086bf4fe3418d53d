import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { expect, test } from "vitest";
import { type Answer, askOnce, faultOf, KEY, openEndpoint } from "../endpoint.ts";
import { type Said, type Sayings, saying, streaming, type WireNotation } from "./notation.ts";

export function faults({ wire, text, error, refusal, says }: WireNotation): void {
  const named = Object.entries(says) as readonly (readonly [Said, Sayings])[];

  test.each<[number, string, string]>([
    [200, "<html>Sign in to the network</html>", "garbled"],
    [200, "", "cut"],
    [204, "", "cut"],
    [400, refusal("x", "no such parameter"), "bad_request"],
    ...named.flatMap(([code, { answers }]) =>
      answers.map(([status, body]): [number, string, string] => [status, body, code]),
    ),
    [401, "{}", "unauthorized"],
    [401, '{"error":{"type":"invalid_request_error"}}', "unauthorized"],
    [403, "forbidden", "unauthorized"],
    [404, '{"error":{"message":"no such model"}}', "bad_request"],
    [413, "<html>nginx</html>", "context_overflow"],
    [422, '{"detail":[{"msg":"messages: field required"}]}', "bad_request"],
    [429, '{"error":{"code":"insufficient_quota"}}', "rate_limited"],
    [429, "", "rate_limited"],
    [500, "<html>oh</html>", "overloaded"],
    [501, "", "overloaded"],
    [502, "<html>bad gateway</html>", "overloaded"],
    [503, "{", "overloaded"],
    [504, "", "overloaded"],
    [529, "", "overloaded"],
  ])("HTTP %i with %j is %s", async (status, body, code) => {
    await using endpoint = await openEndpoint(saying(status, body));
    const asked = await askOnce({ wire, url: endpoint.url, limits: { attemptCount: 1 } });
    expect(faultOf(asked).code).toBe(code);
    expect(faultOf(asked).subject).toContain(endpoint.url);
    if (code === "bad_request" && status === 400) {
      expect(faultOf(asked).message).toContain("no such parameter");
    }
    if (body.startsWith("<") && status >= 400) expect(faultOf(asked).message).not.toContain("<");
  });

  test("a refused key names what to set", async () => {
    await using endpoint = await openEndpoint(saying(401, "{}"));
    expect(faultOf(await askOnce({ wire, url: endpoint.url })).mend).toContain("TEST_KEY");
  });

  test("a redirect is not followed", async () => {
    await using elsewhere = await openEndpoint(streaming(text("hi")));
    await using endpoint = await openEndpoint(saying(307, "", { location: elsewhere.url }));
    const asked = await askOnce({ wire, url: endpoint.url });
    expect(faultOf(asked)).toMatchObject({ code: "config" });
    expect(faultOf(asked).message).toContain(elsewhere.url);
    expect(elsewhere.bodies).toEqual([]);
  });

  test.each([
    ...named.flatMap(([code, { events }]) => events.map((event) => [event, code] as const)),
    [error("never_heard_of_it", "sorry"), "overloaded"] as const,
  ])("%j in a stream keeps the text and is %s", async (event, code) => {
    await using endpoint = await openEndpoint(streaming(text("one"), event));
    const asked = await askOnce({ wire, url: endpoint.url });
    expect(asked.answer).toMatchObject({ fault: { code }, partial: "one" });
    if (code === "overloaded") expect(faultOf(asked).mend).toBe("try again later");
    expect(asked.attempts).toHaveLength(1);
  });

  test("an error of a code that nobody knows shows what it says", async () => {
    await using endpoint = await openEndpoint(streaming(text("one"), error("no_code", "sorry")));
    expect(faultOf(await askOnce({ wire, url: endpoint.url })).message).toContain("sorry");
  });
}

export function connections({ wire }: WireNotation): void {
  test("a server that speaks no HTTP is garbled", async () => {
    const server = createTcpServer((socket) => void socket.end("SSH-2.0-OpenSSH_9.6\r\n\r\n"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const asked = await askOnce({ wire, url: `http://127.0.0.1:${port}` });
    server.close();
    expect(faultOf(asked).code).toBe("garbled");
  });

  test("a failed TLS handshake is unreachable, and not tried again", async () => {
    await using endpoint = await openEndpoint(saying(200, ""));
    const asked = await askOnce({ wire, url: endpoint.url.replace("http:", "https:") });
    expect(faultOf(asked).code).toBe("unreachable");
    expect(asked.attempts).toHaveLength(1);
  });

  test("a name that no server has is unreachable", async () => {
    const asked = await askOnce({ wire, url: "http://no-such-host.invalid/v1" });
    expect(faultOf(asked).code).toBe("unreachable");
  });
}

export function secrets({ wire, text, error }: WireNotation): void {
  test("the key is in no fault, wherever a provider echoes it", async () => {
    const encoded = encodeURIComponent(KEY);
    const echoes: Answer[] = [
      saying(401, `{"error":{"message":${JSON.stringify(`bad key ${KEY}`)}}}`),
      saying(400, `bad key ${KEY}`),
      saying(400, `{"error":{"message":"${"x".repeat(290)} ${JSON.stringify(KEY).slice(1)}}}`),
      saying(200, `<html>${KEY}</html>`),
      saying(500, Buffer.from(KEY).toString("base64")),
      saying(302, "", { location: `http://elsewhere.invalid/?key=${encoded}` }),
      streaming(`data: ${KEY}\n\n`),
      streaming(text("hi"), error("x", `you are ${KEY}`)),
      streaming(error(KEY, KEY)),
    ];
    for (const echo of echoes) {
      await using endpoint = await openEndpoint(echo);
      const asked = await askOnce({ wire, url: endpoint.url });
      const seen = JSON.stringify([faultOf(asked), asked.attempts]);
      expect(seen).not.toContain("0123456789");
      expect(seen).not.toContain(Buffer.from(KEY).toString("base64").slice(4, 16));
    }
  });

  test("a key that no header can carry is a fault that does not show it", async () => {
    await using endpoint = await openEndpoint(saying(200, ""));
    const asked = await askOnce({ wire, url: endpoint.url, key: "secret\n" });
    expect(faultOf(asked)).toMatchObject({ code: "config" });
    expect(JSON.stringify(asked)).not.toContain("secret");
    expect(endpoint.bodies).toEqual([]);
  });
}
