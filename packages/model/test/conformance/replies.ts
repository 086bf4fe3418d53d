import { expect, test } from "vitest";
import { askOnce, faultOf, openEndpoint } from "../endpoint.ts";
import {
  BRIEF,
  briefly,
  events,
  heardOver,
  PLAIN,
  SAID,
  type Spoken,
  saying,
  streaming,
  type WireNotation,
} from "./notation.ts";

export function replies(notation: WireNotation): void {
  const { wire, stream, whole } = notation;
  const HEARD = heardOver(notation);

  test("a streamed reply is heard whole, and its deltas add up to it", async () => {
    await using endpoint = await openEndpoint(streaming(...stream(SAID)));
    const asked = await askOnce({ wire, url: endpoint.url });
    expect(asked.answer).toEqual(HEARD);
    expect(asked.usage).toEqual(SAID.usage);
    const heard = (kind: string) =>
      asked.deltas.flatMap((delta) => (delta.kind === kind ? [delta.text] : [])).join("");
    expect([heard("text"), heard("reasoning")]).toEqual([SAID.text, SAID.reasoning]);
    expect(asked.attempts).toEqual([null]);
  });

  test("how a stream is cut into packets changes nothing", async () => {
    const bytes = Buffer.from(stream(SAID).join(""));
    await using endpoint = await openEndpoint(streaming(...Array.from(bytes, (b) => Buffer.of(b))));
    expect((await askOnce({ wire, url: endpoint.url })).answer).toEqual(HEARD);
  });

  test.each(["\r\n", "\r"])("lines may end in %j, and comments are skipped", async (end) => {
    const text = `: hello\n\n${stream(SAID).join(": still here\n\n")}`.replaceAll("\n", end);
    await using endpoint = await openEndpoint(streaming(text));
    expect((await askOnce({ wire, url: endpoint.url })).answer).toEqual(HEARD);
  });

  test("a provider that does not stream is heard all the same", async () => {
    const json = { "content-type": "application/json" };
    await using endpoint = await openEndpoint(saying(200, whole(SAID), json));
    const asked = await askOnce({ wire, url: endpoint.url });
    expect([asked.answer, asked.usage]).toEqual([HEARD, SAID.usage]);
  });

  test("a call that a length limit cut is invalid, and the calls before it stand", async () => {
    const [first] = SAID.calls;
    const half = { ref: "c3", name: "exec", json: '{"command":"rm -rf ' };
    const said: Spoken = { ...SAID, calls: first ? [first, half] : [], stop: "length" };
    await using endpoint = await openEndpoint(streaming(...stream(said)));
    const { answer } = await askOnce({ wire, url: endpoint.url });
    expect(answer).toMatchObject({
      stop: "length",
      calls: [{ op: { kind: "read" } }, { op: { kind: "invalid", name: "exec" } }],
    });
  });

  test("a call that a length limit cut before its arguments is never run as {}", async () => {
    const calls = [{ ref: "c3", name: "exec", json: "" }];
    await using endpoint = await openEndpoint(
      streaming(...stream({ ...SAID, calls, stop: "length" })),
    );
    const { answer } = await askOnce({ wire, url: endpoint.url });
    const reason = expect.stringContaining("the reply ended before they were whole");
    expect(answer).toMatchObject({ calls: [{ op: { kind: "invalid", arguments: "", reason } }] });
  });

  test("a refusal is a reply that says so", async () => {
    await using endpoint = await openEndpoint(streaming(...stream({ ...PLAIN, stop: "refusal" })));
    const { answer } = await askOnce({ wire, url: endpoint.url });
    expect(answer).toMatchObject({ kind: "reply", stop: "refusal", text: PLAIN.text });
  });

  test("of several calls that a length limit cut none is run that is not whole", async () => {
    const calls = [
      { ref: "c1", name: "exec", json: "" },
      { ref: "c2", name: "exec", json: '{"command":"rm -rf /' },
      { ref: "c3", name: "read", json: '{"path":' },
    ];
    await using endpoint = await openEndpoint(
      streaming(...stream({ ...SAID, calls, stop: "length" })),
    );
    const { answer } = await askOnce({ wire, url: endpoint.url });
    const invalid = calls.map(({ name }) => ({ op: { kind: "invalid", name } }));
    expect(answer).toMatchObject({ stop: "length", calls: invalid });
  });
}

export function breaks(notation: WireNotation): void {
  const { wire, stream, finishedBy, text } = notation;
  const HEARD = heardOver(notation);

  test("a stream cut at any byte is cut, or whole if its last mark had come", async () => {
    const all = stream(BRIEF);
    const bytes = Buffer.from(all.join(""));
    const marker = Buffer.byteLength(all.slice(0, finishedBy(all) + 1).join(""));
    let length = 0;
    await using endpoint = await openEndpoint((response) => {
      response.writeHead(200, events);
      response.flushHeaders();
      // Half of the cuts look like an orderly end, half like a broken connection.
      if (length % 2 === 0) response.end(bytes.subarray(0, length));
      else response.write(bytes.subarray(0, length), () => response.destroy());
    });
    for (length = 0; length <= bytes.length; length++) {
      const { answer, attempts } = await askOnce({ wire, url: endpoint.url });
      expect(attempts).toHaveLength(1);
      // The line end that closes the marker's event may be its first.
      if (length >= marker) expect(answer, `cut at ${length}`).toEqual(briefly(HEARD));
      else if (length < marker - 1) {
        expect(answer, `cut at ${length}`).toMatchObject({ fault: { code: "cut" } });
        expect(BRIEF.text.startsWith(answer.kind === "failed" ? answer.partial : "?")).toBe(true);
      }
    }
  }, 120_000);

  test("what had arrived of a cut stream is kept as partial", async () => {
    await using endpoint = await openEndpoint(streaming(text("so far "), text("so good")));
    const { answer } = await askOnce({ wire, url: endpoint.url });
    expect(answer).toMatchObject({ kind: "failed", partial: "so far so good" });
  });

  test("a connection that is reset in the middle is a cut", async () => {
    await using endpoint = await openEndpoint((response) => {
      response.writeHead(200, events);
      response.write(text("so "), () => response.socket?.resetAndDestroy());
    });
    const asked = await askOnce({ wire, url: endpoint.url });
    expect(faultOf(asked).code).toBe("cut");
    expect(asked.attempts).toHaveLength(1);
  });

  test("data that is no JSON is garbled, and is shown", async () => {
    await using endpoint = await openEndpoint(streaming(text("hm"), "data: {oops\u001b[2J\n\n"));
    const { answer } = await askOnce({ wire, url: endpoint.url });
    expect(answer).toMatchObject({ fault: { code: "garbled" }, partial: "hm" });
    expect(JSON.stringify(answer)).toContain("{oops");
    expect(JSON.stringify(answer)).not.toContain("\\u001b");
  });
}

export function silences(notation: WireNotation): void {
  const { wire, stream, finishedBy, text } = notation;
  const HEARD = heardOver(notation);

  test("a stream that falls silent is given up, with what had arrived", async () => {
    await using endpoint = await openEndpoint((response) => {
      response.writeHead(200, events);
      response.write(text("well, "));
    });
    const { url, dropped: before } = endpoint;
    const asked = await askOnce({ wire, url, limits: { idleMs: 40 }, before });
    expect(asked.answer).toMatchObject({ fault: { code: "silent" }, partial: "well, " });
    expect(asked.attempts).toHaveLength(1);
  });

  test("a slow stream is not a silent one", async () => {
    await using endpoint = await openEndpoint((response) => {
      response.writeHead(200, events);
      const all = stream(SAID);
      const third = Math.ceil(all.length / 3);
      const pieces = [0, third, 2 * third].map((at) => all.slice(at, at + third).join(""));
      const timer = setInterval(() => {
        const piece = pieces.shift();
        if (piece !== undefined) response.write(piece);
        else response.end(() => clearInterval(timer));
      }, 200);
    });
    // Longer than the limit in all, and never between two pieces.
    const asked = await askOnce({ wire, url: endpoint.url, limits: { idleMs: 500 } });
    expect(asked.answer).toEqual(HEARD);
  });

  test("a finished answer does not wait for a stream that never ends", async () => {
    await using endpoint = await openEndpoint((response) => {
      const all = stream(SAID);
      response.writeHead(200, events);
      response.write(all.slice(0, finishedBy(all) + 1).join(""));
    });
    const asked = await askOnce({ wire, url: endpoint.url, limits: { drainMs: 40 } });
    expect(asked.answer).toEqual(HEARD);
  });

  test("comments keep a stream alive, but not beyond the limit of a reply", async () => {
    await using endpoint = await openEndpoint((response) => {
      response.writeHead(200, events);
      const timer = setInterval(() => response.write(": busy\n\n"), 10);
      response.on("close", () => clearInterval(timer));
    });
    const limits = { idleMs: 2_000, firstByteMs: 2_000, replyMs: 80, attemptCount: 1 };
    const asked = await askOnce({ wire, url: endpoint.url, limits });
    expect(faultOf(asked)).toMatchObject({ code: "silent" });
    expect(faultOf(asked).message).toContain("did not end within 0.08 s");
  });
}
