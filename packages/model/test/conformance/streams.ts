import { NO_USAGE } from "@dev/protocol";
import { expect, test } from "vitest";
import type { ModelOverrides } from "../../src/index.ts";
import { type Asked, askOnce, faultOf, openEndpoint } from "../endpoint.ts";
import {
  BRIEF,
  briefly,
  heardOver,
  SAID,
  saying,
  streaming,
  type WireNotation,
} from "./notation.ts";

type Hear = (pieces: readonly (string | Uint8Array)[], models?: ModelOverrides) => Promise<Asked>;

/** The model that is asked, at one millionth of a dollar for a token in, and two for one out. */
const PRICED: ModelOverrides = { "test/some/model": { inputPrice: 1, outputPrice: 2 } };

const hearOver =
  ({ wire }: WireNotation): Hear =>
  async (pieces, models = {}) => {
    await using endpoint = await openEndpoint(streaming(...pieces));
    return await askOnce({ wire, url: endpoint.url, models });
  };

/** How a stream may be cut up, and where it ends. */
export function streams(notation: WireNotation): void {
  const { wire, stream, whole, finishedBy } = notation;
  const HEARD = heardOver(notation);
  const hear = hearOver(notation);

  test("a packet may end at any byte", async () => {
    const bytes = Buffer.from(stream(BRIEF).join(""));
    let at = 0;
    await using endpoint = await openEndpoint((response, request) => {
      streaming(bytes.subarray(0, at), bytes.subarray(at))(response, request, 1);
    });
    for (at = 1; at < bytes.length; at++) {
      const { answer } = await askOnce({ wire, url: endpoint.url });
      expect(answer, `parted at ${at}`).toEqual(briefly(HEARD));
    }
  }, 120_000);

  test.each([1, 2, 1000])("text and arguments may come in pieces of %i", async (pieceUnits) => {
    const asked = await hear(stream({ ...SAID, pieceUnits }));
    expect(asked.answer).toEqual(HEARD);
    expect(asked.deltas.every((delta) => delta.text !== "")).toBe(true);
  });

  test("a provider that says nothing of usage used nothing that is known", async () => {
    const said = stream({ ...SAID, usage: null });
    const asked = await hear(said);
    expect([asked.answer, asked.usage]).toEqual([HEARD, NO_USAGE]);
    expect((await hear(said.slice(0, finishedBy(said)))).usage).toEqual(NO_USAGE);
  });

  test("usage that cannot be true is not said, and a part is no more than its whole", async () => {
    const absurd = {
      inputTokens: -5,
      cachedTokens: 1e300,
      outputTokens: 2 ** 52,
      reasoningTokens: -1,
    };
    for (const said of [stream({ ...SAID, usage: absurd }), [whole({ ...SAID, usage: absurd })]]) {
      const { answer, usage, costMicroUsd } = await hear(said, PRICED);
      expect(answer).toEqual(HEARD);
      // Some notations say a little more, as their API does; none of what is absurd comes through.
      expect(usage.inputTokens).toBeLessThan(10);
      expect(usage.outputTokens).toBeLessThan(10);
      expect([usage.cachedTokens, usage.reasoningTokens]).toEqual([0, 0]);
      expect(costMicroUsd).toBeGreaterThan(5);
    }
    const parts = { inputTokens: 120, cachedTokens: 500, outputTokens: 30, reasoningTokens: 500 };
    const { usage } = await hear(stream({ ...SAID, usage: parts }));
    expect(usage.cachedTokens).toBeLessThanOrEqual(usage.inputTokens);
    expect(usage.reasoningTokens).toBe(30);
  });

  test("an answer without usage is priced by its bytes, whether it ends or is cut", async () => {
    const said = stream({ ...SAID, usage: null });
    await using endpoint = await openEndpoint(streaming(...said));
    const asked = await askOnce({ wire, url: endpoint.url, models: PRICED });
    const inputTokens = Math.ceil(Buffer.byteLength(endpoint.bodies[0] ?? "") / 3);
    const leastOutput = Math.ceil(Buffer.byteLength(SAID.text + SAID.reasoning) / 3);
    expect(asked.usage).toEqual(NO_USAGE);
    expect(asked.costMicroUsd).toBeGreaterThan(inputTokens + 2 * leastOutput);
    expect(asked.costMicroUsd).toBeLessThan(inputTokens + 8 * leastOutput + 300);

    const cut = await hear(said.slice(0, finishedBy(said)), PRICED);
    expect(cut.answer.kind).toBe("failed");
    expect(cut.costMicroUsd).toBeGreaterThanOrEqual(inputTokens + 2 * leastOutput);
    expect((await hear(said)).costMicroUsd).toBe(0);
    // What no answer had begun to is not known to cost anything.
    expect((await hear([], PRICED)).costMicroUsd).toBe(0);
  });

  test("a reply ends where its stream says so, and what comes behind adds nothing", async () => {
    const said = stream(SAID);
    expect((await hear([...said, ...said])).answer).toEqual(HEARD);
  });
}

/** What a stream may hold besides what it has to say. */
export function oddities(notation: WireNotation): void {
  const { wire, stream, whole, quiet, knownAgain } = notation;
  const HEARD = heardOver(notation);
  const hear = hearOver(notation);

  test("what says nothing changes nothing, wherever it comes", async () => {
    const said = stream(SAID);
    const asked = await hear([...quiet, ...said.flatMap((event) => [event, ...quiet])]);
    expect([asked.answer, asked.usage]).toEqual([HEARD, SAID.usage]);
    expect(quiet.length).toBeGreaterThan(2);
  });

  test("fields of a later version change nothing, wherever they are", async () => {
    const asked = await hear(stream(SAID).map(grown));
    expect([asked.answer, asked.usage]).toEqual([HEARD, SAID.usage]);
    await using endpoint = await openEndpoint(
      saying(200, JSON.stringify(later(JSON.parse(whole(SAID))))),
    );
    const unstreamed = await askOnce({ wire, url: endpoint.url });
    expect([unstreamed.answer, unstreamed.usage]).toEqual([HEARD, SAID.usage]);
  });

  test("a field of another type than it should have breaks nothing else", async () => {
    const said = stream(BRIEF);
    const op = HEARD.kind === "reply" ? HEARD.calls[0]?.op : undefined;
    for (const [at, event] of said.entries()) {
      for (const broken of misshapen(event)) {
        // An ask never rejects: whatever comes is an answer, or a fault that says what is wrong.
        const { answer } = await hear([...said.slice(0, at), broken, ...said.slice(at + 1)]);
        if (answer.kind !== "reply") {
          expect(["cut", "garbled", "overloaded"], broken).toContain(faultOf({ answer }).code);
        } else if (answer.calls[0] !== undefined && answer.calls[0].op.kind !== "invalid") {
          expect(answer.calls[0].op, broken).toEqual(op);
        }
      }
    }
  });

  test("an event that comes twice and can be known again counts once", async () => {
    const said = stream(SAID);
    for (const [at, event] of said.entries()) {
      const asked = await hear([...said.slice(0, at), event, ...said.slice(at)]);
      if (knownAgain(event)) {
        expect([asked.answer, asked.usage], event).toEqual([HEARD, SAID.usage]);
      } else {
        // What cannot be known again is taken for more of the same; it breaks nothing else.
        expect(asked.answer, event).toMatchObject({ kind: "reply", stop: "calls" });
      }
    }
    const doubled = said.flatMap((event) => (knownAgain(event) ? [event, event] : [event]));
    const asked = await hear(doubled);
    expect(asked.answer).toEqual(HEARD);
    const heard = (kind: string) => asked.deltas.filter((delta) => delta.kind === kind);
    expect(
      heard("text")
        .map((delta) => delta.text)
        .join(""),
    ).toBe(SAID.text);
    expect(
      heard("reasoning")
        .map((delta) => delta.text)
        .join(""),
    ).toBe(SAID.reasoning);
  });
}

/** The event with fields that nobody knows, in all of its objects. */
function grown(event: string): string {
  return event.replace(/^data: ({.*)$/m, (_, json: string) => {
    return `data: ${JSON.stringify(later(JSON.parse(json)))}`;
  });
}

function later(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(later);
  if (value === null || typeof value !== "object") return value;
  // A call's `input` is the model's own, not the API's.
  const fields = Object.entries(value).map(([name, field]) => [
    name,
    name === "input" ? field : later(field),
  ]);
  return { ...Object.fromEntries(fields), later: { news: [1, null, { text: "?" }] } };
}

const OTHERS: readonly unknown[] = [null, 7, "?", [], {}, [null], true];

/** The event, once for each of its fields, with something else in that field. */
function misshapen(event: string): readonly string[] {
  const json = /^data: ({.*)$/m.exec(event)?.[1];
  if (json === undefined) return [];
  return broken(JSON.parse(json)).map((value) => `data: ${JSON.stringify(value)}\n\n`);
}

function broken(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) {
    return value.flatMap((each, at) => broken(each).map((other) => value.with(at, other)));
  }
  if (value === null || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([name, field], at) => [
    { ...value, [name]: OTHERS[(at + name.length) % OTHERS.length] },
    ...broken(field).map((other) => ({ ...value, [name]: other })),
  ]);
}
