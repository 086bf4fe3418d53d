import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { type Ask, openRouter, ROUTER_LIMITS } from "../../src/index.ts";
import { askOf, askOnce, faultOf, openEndpoint } from "../endpoint.ts";
import { PLAIN, saying, streaming, type WireNotation } from "./notation.ts";

const SCHEMA = {
  type: "object",
  properties: { edits: { type: "array", minItems: 1, items: { type: "string" } } },
  required: ["edits"],
  additionalProperties: false,
};
const FORMAT = { name: "edits", schema: SCHEMA };

/** The field of a body in which each wire has a format, and what it calls it when it refuses one. */
const FIELDS: Readonly<Record<string, (body: Body) => unknown>> = {
  "openai-chat": (body) => body.response_format,
  "openai-responses": (body) => body.text?.format,
  anthropic: (body) => body.output_config?.format,
};

type Body = {
  readonly response_format?: unknown;
  readonly text?: { readonly format: unknown };
  readonly output_config?: { readonly format?: unknown; readonly effort?: unknown };
};

const NAMES: Readonly<Record<string, string>> = {
  "openai-chat": "response_format: this model takes no json_schema",
  "openai-responses": "Unsupported parameter: text.format",
  anthropic: "output_config.format: Extra inputs are not permitted",
};

/** A format goes out as the wire has it, and a server that refuses it is asked without. */
export function formats({ wire, stream }: WireNotation): void {
  const formatIn = (body: string): unknown => FIELDS[wire]?.(JSON.parse(body) as Body);
  const refusing = (what: string) => JSON.stringify({ error: { message: what, type: "x" } });

  /** Asks three times over one router, at a server that refuses with these words what has a format. */
  async function asked(words: string): Promise<{ bodies: readonly string[]; kinds: string[] }> {
    const say = streaming(...stream(PLAIN));
    await using endpoint = await openEndpoint((response: ServerResponse, request, count) => {
      const hasFormat = formatIn(endpoint.bodies.at(-1) ?? "{}") !== undefined;
      if (hasFormat) saying(400, refusing(words))(response, request, count);
      else say(response, request, count);
    });
    const router = openRouter(
      { test: { wire, baseUrl: endpoint.url, key: null } },
      { sleep: async () => {}, random: () => 0, limits: ROUTER_LIMITS },
    );
    const ask: Ask = { ...askOf({}), format: FORMAT };
    const none = new AbortController().signal;
    const kinds: string[] = [];
    for (let count = 0; count < 3; count += 1) {
      const { answer } = await router.ask(
        ask,
        () => {},
        async () => {},
        none,
      );
      kinds.push(answer.kind);
    }
    router.close();
    return { bodies: [...endpoint.bodies], kinds };
  }

  test("a format is strict, and in the field that the wire has for it", async () => {
    await using endpoint = await openEndpoint(streaming(...stream(PLAIN)));
    const { answer } = await askOnce({ wire, url: endpoint.url, ask: { format: FORMAT } });
    expect(answer.kind).toBe("reply");
    const said = JSON.stringify(formatIn(endpoint.bodies[0] ?? "{}"));
    expect(said).toContain('"type":"json_schema"');
    expect(said).toContain('"additionalProperties":false');
    if (wire === "anthropic") expect(said).not.toContain("minItems");
    else expect(said).toMatch(/"name":"edits","strict":true,"schema":\{.*"minItems":1/);
  });

  test("an ask without a format has none", async () => {
    await using endpoint = await openEndpoint(streaming(...stream(PLAIN)));
    await askOnce({ wire, url: endpoint.url, ask: { effort: "low" } });
    expect(formatIn(endpoint.bodies[0] ?? "{}")).toBeUndefined();
  });

  test("a server that refuses the field is asked once more without it, and then always", async () => {
    const { bodies, kinds } = await asked(NAMES[wire] ?? "");
    expect(kinds).toEqual(["reply", "reply", "reply"]);
    const had = bodies.map((body) => formatIn(body) !== undefined);
    expect(had).toEqual([true, false, false, false]);
    const [first = "", second = ""] = bodies;
    expect(JSON.parse(second)).toMatchObject({ model: JSON.parse(first).model, stream: true });
  });

  test("a request that is refused for anything else is not sent again", async () => {
    const { bodies, kinds } = await asked("the model does not exist");
    expect(kinds).toEqual(["failed", "failed", "failed"]);
    expect(bodies.every((body) => formatIn(body) !== undefined)).toBe(true);
    expect(bodies).toHaveLength(3);
  });

  test("one that is refused without the format too is a fault, and the format is kept", async () => {
    await using endpoint = await openEndpoint(saying(400, refusing("invalid schema of a tool")));
    const told = await askOnce({ wire, url: endpoint.url, ask: { format: FORMAT } });
    expect(faultOf(told).code).toBe("bad_request");
    expect(endpoint.bodies.map((body) => formatIn(body) !== undefined)).toEqual([true, false]);
  });
}
