import { readFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { ok } from "@dev/protocol";
import { describe, expect, test } from "vitest";
import { type Decisions, openDecisions, type Transport } from "../src/decide.ts";
import { revisionOf } from "../src/revision.ts";
import {
  answer,
  candidateOf,
  FILES,
  mend,
  NEVER,
  play,
  scripted,
  whyOf,
} from "./generate-notation.ts";

const FIXED = FILES["src/sum.js"].replace("-", "+");

describe("an answer that reads", () => {
  test("is a candidate, with its cost, its line in the file, and its site", async () => {
    await using model = await scripted([
      { reply: { text: answer(mend()) }, usage: { input: 100, output: 20 } },
    ]);
    await using run = await play({ url: model.url });
    const help = await run.generation.ahead(run.state, NEVER);
    expect(await run.made(help)).toBe(FIXED);
    expect(candidateOf(help).site).toEqual({ file: "src/sum.js", line: 2, function: "sum" });
    expect(help.cost).toEqual({ inputTokens: 100, outputTokens: 20, usd: 0.0004 });
    expect(run.outcomes()).toEqual(["low edits"]);
    const [line, ...more] = await run.lines();
    expect(more).toEqual([]);
    expect(line).toMatchObject({
      version: 1,
      run: "run-1",
      id: "g1",
      model: "main/model",
      stage: "low",
      effort: "low",
      status: "answered",
      billed: "usage",
      costMicroUsd: 400,
      error: "",
    });
    expect(line?.firstMs).toBeGreaterThan(0);
    expect(line?.ms).toBeGreaterThanOrEqual(line?.firstMs ?? 0);
  });

  test("is asked for with the failure, the test, the code with its lines, and the schema", async () => {
    await using model = await scripted([{ reply: { text: answer(mend()) } }]);
    await using run = await play({ url: model.url });
    await run.generation.ahead(run.state, NEVER);
    const [request] = model.requests;
    const [system, user] = request?.messages ?? [];
    expect(system?.content).toContain('"minItems":1');
    expect(user?.content).toContain("expected 3, got -1");
    expect(user?.content).toContain("2| check('adds', sum(1, 2) === 3);");
    expect(user?.content).toContain("2|   return a - b;");
    const body = JSON.parse(request?.body ?? "");
    expect(body.reasoning_effort).toBe("low");
    expect(body.response_format.json_schema).toMatchObject({
      name: "edits",
      strict: true,
      schema: { required: ["edits"], properties: { edits: { minItems: 1 } } },
    });
  });

  test("comes from a server that takes no format too, which is asked for one but once", async () => {
    const refused = { status: 400, body: '{"error":{"message":"response_format is unknown"}}' };
    await using model = await scripted([
      { fault: { kind: "status", ...refused } },
      { reply: { text: "no" } },
      { reply: { text: answer(mend()) } },
    ]);
    await using run = await play({ url: model.url });
    expect(await run.made(await run.generation.ahead(run.state, NEVER))).toBe(FIXED);
    expect(run.outcomes()).toEqual(["low no_json", "repair edits"]);
    const formats = model.requests.map(({ body }) => "response_format" in JSON.parse(body));
    expect(formats).toEqual([true, false, false]);
    expect((await run.lines()).map(({ status }) => status)).toEqual(["answered", "answered"]);
  });

  test("may stand in prose and a fence", async () => {
    const text = `The sign is wrong: {a - b}.\n\`\`\`json\n${answer(mend())}\n\`\`\`\nDone.`;
    await using model = await scripted([{ reply: { text } }]);
    await using run = await play({ url: model.url });
    expect(await run.made(await run.generation.ahead(run.state, NEVER))).toBe(FIXED);
  });
});

describe("an answer refused for how it is written", () => {
  test.each([
    ["no_json", "I would change the sign.", "there is no JSON in it"],
    ["unreadable", '{"edits":[{"file":"src/sum.js","li', "does not read"],
    [
      "unreadable",
      '{"edits":[{"file":"src/sum.js","line":"2","old":"a","new":"b"}]}',
      '\\"line\\"',
    ],
    ["refused", answer(mend({ old: "return a * b;" })), "is not in the file"],
    ["refused", answer(mend(), mend({ old: "a - b", new: "b + a" })), "overlap"],
    ["refused", answer(mend({ file: "../outside.js" })), "no file of the workspace"],
    ["refused", answer(mend({ file: "test/sum.test.js" })), "no file of the workspace"],
  ])("goes back once with the reason: %s, %s", async (outcome, text, reason) => {
    const said = reason.replaceAll("\\", "");
    await using model = await scripted([
      { reply: { text } },
      { reply: { text: answer(mend()) }, expect: [said] },
    ]);
    await using run = await play({ url: model.url });
    expect(await run.made(await run.generation.ahead(run.state, NEVER))).toBe(FIXED);
    expect(run.outcomes()).toEqual([`low ${outcome}`, "repair edits"]);
    const roles = model.requests[1]?.messages.map(({ role }) => role);
    expect(roles).toEqual(["system", "user", "assistant", "user"]);
  });

  test("goes back with the file's own lines where it said it stood", async () => {
    await using model = await scripted([
      { reply: { text: answer(mend({ old: "return a-b" })) } },
      { reply: { text: answer(mend()) }, expect: ["own lines", "2|   return a - b;"] },
    ]);
    await using run = await play({ url: model.url });
    expect((await run.generation.ahead(run.state, NEVER)).kind).toBe("candidate");
  });

  test("goes back no second time", async () => {
    await using model = await scripted([{ reply: { text: "no" } }, { reply: { text: "no" } }]);
    await using run = await play({ url: model.url });
    expect((await run.generation.ahead(run.state, NEVER)).kind).toBe("none");
    expect(run.outcomes()).toEqual(["low no_json", "repair no_json"]);
  });
});

describe("an answer of no edits", () => {
  test("costs the attempt, and the next asks with full effort", async () => {
    await using model = await scripted([
      { reply: { text: '{"edits":[]}' } },
      { reply: { text: answer(mend()) } },
    ]);
    await using run = await play({ url: model.url });
    expect(whyOf(await run.generation.ahead(run.state, NEVER))).toContain("no edits");
    expect((await run.generation.next(run.state, NEVER)).kind).toBe("candidate");
    expect(run.outcomes()).toEqual(["low no_edits", "full edits"]);
    expect(JSON.parse(model.requests[1]?.body ?? "").reasoning_effort).toBe("high");
  });

  test("that names a file is shown it, once", async () => {
    const need = '{"edits":[],"need":"src/table.js"}';
    await using model = await scripted([
      { reply: { text: need }, expect: (request) => !request.body.includes("TABLE") },
      {
        reply: { text: '{"edits":[],"need":"test/sum.test.js and src/none.js"}' },
        expect: ["TABLE"],
      },
    ]);
    await using run = await play({ url: model.url });
    expect((await run.generation.ahead(run.state, NEVER)).kind).toBe("none");
    expect(run.outcomes()).toEqual(["low no_edits", "context no_edits"]);
  });

  test("that names a second file is not shown it", async () => {
    await using model = await scripted([
      { reply: { text: '{"edits":[],"need":"src/table.js"}' } },
      { reply: { text: '{"edits":[],"need":"src/more.js"}' } },
    ]);
    const files = { ...FILES, "src/more.js": "export const MORE = 2;\n" };
    await using run = await play({ url: model.url, files });
    expect(whyOf(await run.generation.ahead(run.state, NEVER))).toContain("src/more.js as well");
  });

  test("that names a file it was shown whole is not shown it again", async () => {
    await using model = await scripted([{ reply: { text: '{"edits":[],"need":"src/sum.js"}' } }]);
    await using run = await play({ url: model.url });
    expect(whyOf(await run.generation.ahead(run.state, NEVER))).toContain("names no file");
  });

  test("that names a long file is shown its beginning", async () => {
    const long = "export const MORE = 2;\n".repeat(5_000);
    await using model = await scripted([
      { reply: { text: '{"edits":[],"need":"src/more.js"}' } },
      { reply: { text: answer(mend()) }, expect: ({ body }) => body.length < long.length },
    ]);
    await using run = await play({ url: model.url, files: { ...FILES, "src/more.js": long } });
    expect((await run.generation.ahead(run.state, NEVER)).kind).toBe("candidate");
    expect(run.outcomes()).toEqual(["low no_edits", "context edits"]);
  });

  test("of an escalated attempt goes to the fallback model, once, over the same prompt", async () => {
    await using model = await scripted([
      { reply: { text: '{"edits":[]}' } },
      { reply: { text: '{"edits":[]}' } },
    ]);
    await using other = await scripted([{ reply: { text: '{"edits":[]}' } }]);
    await using run = await play({ url: model.url, fallbackUrl: other.url });
    await run.generation.ahead(run.state, NEVER);
    expect((await run.generation.next(run.state, NEVER)).kind).toBe("none");
    expect((await run.generation.next(run.state, NEVER)).kind).toBe("none");
    expect(run.outcomes()).toEqual(["low no_edits", "full no_edits", "fallback no_edits"]);
    expect(other.requests[0]?.messages).toEqual(model.requests[1]?.messages);
    const steps = run.records.flatMap((each) =>
      each.kind === "transition" ? [`${each.from} ${each.to}`] : [],
    );
    expect(steps).toEqual(["full fallback", "fallback recover"]);
  });
});

describe("a candidate that failed", () => {
  test("is told to the next attempt, which does not give it again", async () => {
    await using model = await scripted([
      { reply: { text: answer(mend({ new: "return a * b;" })) } },
      {
        reply: { text: answer(mend({ new: "return a * b;" })) },
        expect: ["Tried already", "+  return a * b;", "expected 3, got -1"],
      },
    ]);
    await using other = await scripted([{ reply: { text: answer(mend()) } }]);
    await using run = await play({ url: model.url, fallbackUrl: other.url });
    const first = await run.generation.ahead(run.state, NEVER);
    const second = await run.generation.next(run.after(first), NEVER);
    expect(await run.made(second)).toBe(FIXED);
    expect(second).toMatchObject({ source: "recover" });
    expect(run.outcomes()).toEqual(["low edits", "full tried", "fallback edits"]);
    expect(run.records).toContainEqual(
      expect.objectContaining({ kind: "transition", from: "verify", to: "full" }),
    );
  });

  test("of full effort is not followed by the fallback", async () => {
    await using model = await scripted([
      { reply: { text: '{"edits":[]}' } },
      { reply: { text: answer(mend({ new: "return 3;" })) } },
    ]);
    await using other = await scripted([]);
    await using run = await play({ url: model.url, fallbackUrl: other.url });
    await run.generation.ahead(run.state, NEVER);
    const full = await run.generation.next(run.state, NEVER);
    expect((await run.generation.next(run.after(full), NEVER)).kind).toBe("none");
    expect(run.outcomes()).toEqual(["low no_edits", "full edits"]);
  });
});

describe("a call that brings no text", () => {
  test("of reasoning alone is kept with its error, billed, and asked again", async () => {
    await using model = await scripted([
      {
        reply: { reasoning: "hmm, the sign", finish: "length" },
        usage: { input: 100, output: 3000, reasoning: 3000 },
      },
      { reply: { text: answer(mend()) }, usage: { input: 100, output: 10 } },
    ]);
    await using run = await play({ url: model.url });
    const help = await run.generation.ahead(run.state, NEVER);
    expect(help.kind).toBe("candidate");
    expect(help.cost.outputTokens).toBe(3010);
    expect(run.outcomes()).toEqual(["low empty", "again edits"]);
    const [line] = await run.lines();
    expect(line).toMatchObject({
      status: "answered",
      error: "it is reasoning alone, up to its limit",
      costMicroUsd: 30_200,
    });
  });

  test("whose stream is cut is billed by the most that it can have cost, and is no answer", async () => {
    const whole = { text: `${answer(mend())}${" ".repeat(4_000)}` };
    await using model = await scripted([
      { fault: { kind: "cut", bytes: 4_000, reply: whole } },
      { fault: { kind: "cut", bytes: 4_000, reply: whole } },
    ]);
    await using run = await play({ url: model.url });
    expect(whyOf(await run.generation.ahead(run.state, NEVER))).toContain("cut");
    expect(run.outcomes()).toEqual(["low failed", "again failed"]);
    for (const line of await run.lines()) {
      expect(line).toMatchObject({ status: "failed", billed: "estimate" });
      expect(line.error).toMatch(/^cut: /);
      expect(line.costMicroUsd).toBeGreaterThan(1_000);
    }
  });

  test("and ends with an error in mid-stream is kept with it, billed, and asked again", async () => {
    const error = 'data: {"error":{"message":"the engine fell over","code":500}}\n\n';
    await using server = await streams([`${piece('{"edi')}${error}`, whole(answer(mend()))]);
    await using run = await play({ url: server.url });
    expect(await run.made(await run.generation.ahead(run.state, NEVER))).toBe(FIXED);
    const [line] = await run.lines();
    expect(line).toMatchObject({ status: "failed", billed: "estimate" });
    expect(line?.error).toContain("the engine fell over");
    expect(line?.costMicroUsd).toBeGreaterThan(0);
  });

  test("because nobody is there costs nothing, and that model is left alone for a while", async () => {
    await using run = await play({ url: "http://127.0.0.1:9/v1" });
    expect(whyOf(await run.generation.ahead(run.state, NEVER))).toContain("unreachable");
    expect(whyOf(await run.generation.next(run.state, NEVER))).toContain("left alone");
    const lines = await run.lines();
    expect(lines.map(({ billed, costMicroUsd }) => [billed, costMicroUsd])).toEqual([["none", 0]]);
    run.wait(60_000);
    const moved = { ...run.state, revision: revisionOf(new Map()) };
    expect(whyOf(await run.generation.next(moved, NEVER))).toContain("unreachable");
    expect(run.outcomes()).toEqual(["low failed", "low failed"]);
  });

  test("because its key is refused is not made again, and the fallback is asked", async () => {
    await using model = await scripted([{ fault: { kind: "status", status: 401 } }]);
    await using other = await scripted([{ reply: { text: answer(mend()) } }]);
    await using run = await play({ url: model.url, fallbackUrl: other.url });
    await run.generation.ahead(run.state, NEVER);
    run.wait(86_400_000);
    expect((await run.generation.next(run.state, NEVER)).kind).toBe("candidate");
    expect(run.outcomes()).toEqual(["low failed", "fallback edits"]);
  });
});

describe("the budget", () => {
  test("stops the run before a call that would go past it", async () => {
    const usage = { input: 1_000, output: 1_000 };
    await using model = await scripted([{ reply: { text: '{"edits":[]}' }, usage }]);
    await using run = await play({ url: model.url, budgetMicroUsd: 12_000 });
    await run.generation.ahead(run.state, NEVER);
    expect(whyOf(await run.generation.next(run.state, NEVER))).toContain("$0.0120 of $0.0120");
    expect(whyOf(await run.generation.next(run.state, NEVER))).toContain("$0.0120 of $0.0120");
    expect(run.records.filter(({ kind }) => kind === "stop")).toHaveLength(1);
    expect(await run.lines()).toHaveLength(1);
  });

  test("too small for the prompt alone asks nothing", async () => {
    await using model = await scripted([]);
    await using run = await play({ url: model.url, budgetMicroUsd: 100 });
    expect(whyOf(await run.generation.ahead(run.state, NEVER))).toContain("$0.0000 of $0.0001");
    expect(await run.lines()).toEqual([]);
  });
});

describe("a call begun ahead", () => {
  test("and cancelled has its stream closed and its line in the file", async () => {
    await using server = await streams([piece("thinking")], { hold: true });
    await using run = await play({ url: server.url });
    const over = new AbortController();
    const help = run.generation.ahead(run.state, over.signal);
    await server.sent;
    over.abort();
    const ended = await help;
    await server.dropped;
    expect(ended.kind).toBe("none");
    expect(ended.cost.usd).toBeGreaterThan(0);
    const [line, ...more] = await run.lines();
    expect(more).toEqual([]);
    expect(line).toMatchObject({ id: "g1", status: "cancelled", billed: "estimate" });
    const chars = JSON.parse(server.bodies[0] ?? "").messages.reduce(
      (sum: number, { content }: { content: string }) => sum + content.length,
      0,
    );
    const least = Math.floor(chars / 3) * 2;
    expect(line?.costMicroUsd).toBeGreaterThanOrEqual(least);
    expect(line?.costMicroUsd).toBeLessThan(least * 1.3);
    expect(run.records.map(({ kind }) => kind)).toEqual(["cancel"]);
  });

  test("and cancelled is asked again where it is needed after all", async () => {
    await using model = await scripted([
      { fault: { kind: "hang" } },
      { reply: { text: answer(mend()) } },
    ]);
    await using run = await play({ url: model.url });
    const over = new AbortController();
    const help = run.generation.ahead(run.state, over.signal);
    await model.request(1);
    over.abort();
    await help;
    expect((await run.generation.next(run.state, NEVER)).kind).toBe("candidate");
    expect((await run.lines()).map(({ status, stage }) => `${stage} ${status}`)).toEqual([
      "low cancelled",
      "low answered",
    ]);
  });

  test("is begun once a revision", async () => {
    await using model = await scripted([{ reply: { text: answer(mend()) } }]);
    await using run = await play({ url: model.url });
    await run.generation.ahead(run.state, NEVER);
    expect(whyOf(await run.generation.ahead(run.state, NEVER))).toContain("asked before");
  });

  test("comes to its end before anything else is asked at its revision", async () => {
    await using model = await scripted([
      { reply: { text: '{"edits":[]}' }, gate: "ahead" },
      { reply: { text: answer(mend()) } },
    ]);
    await using run = await play({ url: model.url });
    const ahead = run.generation.ahead(run.state, NEVER);
    const next = run.generation.next(run.state, NEVER);
    await model.request(1);
    model.release("ahead");
    expect((await ahead).kind).toBe("none");
    expect((await next).kind).toBe("candidate");
    expect(run.outcomes()).toEqual(["low no_edits", "full edits"]);
  });

  test("is stopped by what is asked once the state has moved", async () => {
    await using model = await scripted([
      { fault: { kind: "hang" } },
      { reply: { text: answer(mend()) } },
    ]);
    await using run = await play({ url: model.url });
    const help = run.generation.ahead(run.state, NEVER);
    await model.request(1);
    const moved = { ...run.state, revision: revisionOf(new Map([["src/sum.js", "other"]])) };
    expect((await run.generation.next(moved, NEVER)).kind).toBe("candidate");
    expect((await help).kind).toBe("none");
    expect(run.records[0]).toMatchObject({ kind: "cancel", why: "the state moved" });
  });

  test("is stopped, and written down, when the run is closed", async () => {
    await using model = await scripted([{ fault: { kind: "hang" } }]);
    await using run = await play({ url: model.url });
    const help = run.generation.ahead(run.state, NEVER);
    await model.request(1);
    await run.generation.close();
    expect((await run.lines()).map(({ status }) => status)).toEqual(["cancelled"]);
    expect((await help).kind).toBe("none");
  });
});

describe("candidates that disagree", () => {
  const before = FILES["src/sum.js"];
  const fixes = ["a + b", "3"].map((to) => [
    { file: "src/sum.js", before, after: before.replace("a - b", to) },
  ]);
  const example = { input: "sum(2, 2)", outcomes: ["v4", "v3"] };

  test("are shown to the model, which may choose one", async () => {
    await using model = await scripted([
      {
        reply: { text: 'Plainly:\n{"choice":1,"why":"it adds"}' },
        expect: ["Change 1:", "+  return a + b;", "Change 2:", "+  return 3;", "sum(2, 2)"],
      },
    ]);
    await using run = await play({ url: model.url });
    const choice = await run.generation.settle(run.state, fixes, example, NEVER);
    expect(choice).toMatchObject({ chosen: 0, why: "it adds" });
    expect(choice.cost.inputTokens).toBeGreaterThan(0);
    expect(run.outcomes()).toEqual(["settle chosen"]);
  });

  test.each([
    '{"choice":0,"why":"unclear"}',
    '{"choice":3,"why":""}',
    "the first",
    '{"choice":"1"}',
  ])("stay undecided where it says %s", async (text) => {
    await using model = await scripted([{ reply: { text } }]);
    await using run = await play({ url: model.url });
    expect((await run.generation.settle(run.state, fixes, null, NEVER)).chosen).toBeNull();
    expect(run.outcomes()).toEqual(["settle undecided"]);
  });
});

test("a choice among candidates stops what was asked beside the search", async () => {
  await using model = await scripted([
    { fault: { kind: "hang" } },
    { reply: { text: '{"choice":1,"why":""}' } },
  ]);
  await using run = await play({ url: model.url });
  const help = run.generation.ahead(run.state, NEVER);
  await model.request(1);
  const fix = [{ file: "src/sum.js", before: "a\n", after: "b\n" }];
  expect((await run.generation.settle(run.state, [fix, fix], null, NEVER)).chosen).toBe(0);
  expect((await help).kind).toBe("none");
  expect(run.records[0]).toMatchObject({ kind: "cancel", why: "the search settled" });
});

describe("a decision service", () => {
  const ranked = ["src/table.js", "src/sum.js"];

  test("says where to look first, and how hard to think", async () => {
    await using model = await scripted([
      {
        reply: { text: answer(mend()) },
        expect: ({ body }) => body.indexOf("=== src/sum.js") < body.indexOf("=== src/table.js"),
      },
    ]);
    const decisions = deciding({ site: "site_2", effort: "full" }, 0.9);
    await using run = await play({ url: model.url, decisions, ranked });
    expect((await run.generation.next(run.state, NEVER)).kind).toBe("candidate");
    expect(run.outcomes()).toEqual(["full edits"]);
    expect(run.records[0]).toMatchObject({ kind: "decide", program: "fix.site@1", source: "kai" });
  });

  test("is not heeded where it is not sure", async () => {
    await using model = await scripted([
      {
        reply: { text: answer(mend()) },
        expect: ({ body }) => body.indexOf("=== src/table.js") < body.indexOf("=== src/sum.js"),
      },
    ]);
    const decisions = deciding({ site: "site_2", action: "escalate", effort: "full" }, 0.2);
    await using run = await play({ url: model.url, decisions, ranked });
    await run.generation.next(run.state, NEVER);
    expect(run.outcomes()).toEqual(["low edits"]);
  });

  test("may see no edit, and then no model is asked", async () => {
    await using model = await scripted([]);
    const decisions = deciding({ action: "escalate" }, 0.9);
    await using run = await play({ url: model.url, decisions });
    expect(whyOf(await run.generation.next(run.state, NEVER))).toContain("no edit");
    expect(await run.lines()).toEqual([]);
  });

  test("may choose among fixes, and then no model is asked", async () => {
    await using model = await scripted([]);
    const decisions = deciding({ next: "change_2" }, 0.9);
    await using run = await play({ url: model.url, decisions });
    const file = { file: "src/sum.js", before: "a\n", after: "b\n" };
    const fixes = [[file], [{ ...file, after: "c\n" }]];
    expect((await run.generation.settle(run.state, fixes, null, NEVER)).chosen).toBe(1);
  });

  test("that is not configured leaves it to a rule, and the record says so", async () => {
    await using model = await scripted([{ reply: { text: answer(mend()) } }]);
    await using run = await play({ url: model.url });
    await run.generation.next(run.state, NEVER);
    expect(run.records[0]).toMatchObject({
      kind: "decide",
      source: "rule",
      why: "no decision service is configured",
    });
  });

  test("is not asked before a call that is begun ahead", async () => {
    await using model = await scripted([{ reply: { text: answer(mend()) } }]);
    await using run = await play({ url: model.url, decisions: deciding({}, 1) });
    await run.generation.ahead(run.state, NEVER);
    expect(run.records.map(({ kind }) => kind)).toEqual(["generate"]);
  });
});

test("generation writes nothing into the tree", async () => {
  await using model = await scripted([{ reply: { text: answer(mend()) } }]);
  await using run = await play({ url: model.url });
  await run.generation.ahead(run.state, NEVER);
  for (const [file, text] of Object.entries(FILES)) {
    expect(await readFile(join(run.directory, "tree", file), "utf8")).toBe(text);
  }
});

/**
 * A service that gives these choices, so sure of all of them, and the first option where none is
 * given.
 */
function deciding(choices: Readonly<Record<string, string>>, confidence: number): Decisions {
  const transport: Transport = {
    decide: async ({ questions }) => {
      const answers = Object.entries(questions).map(([name, question]) => {
        const choice = choices[name.split(".").at(-1) ?? ""];
        if (question.kind === "noul") return [name, { kind: "noul", probability: 0.5, confidence }];
        if (question.kind === "score") {
          return [name, { kind: "score", score: 0, probabilities: [], confidence }];
        }
        const given = choice ?? Object.keys(question.options)[0] ?? "";
        return [name, { kind: "choice", choice: given, probabilities: {}, confidence }];
      });
      return ok(Object.fromEntries(answers));
    },
  };
  return openDecisions({ transport, model: "decider", nowMs: () => 0 });
}

function piece(content: string): string {
  return `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;
}

function whole(content: string): string {
  const end = { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] };
  return `${piece(content)}data: ${JSON.stringify(end)}\n\ndata: [DONE]\n\n`;
}

type Streams = AsyncDisposable & {
  readonly url: string;
  readonly bodies: readonly string[];
  /** Resolves when the first stream was written. */
  readonly sent: Promise<void>;
  /** Resolves when a client has let go of a stream that was not at its end. */
  readonly dropped: Promise<void>;
};

/** A server that answers each request with the next of these streams, and may hold them open. */
async function streams(texts: readonly string[], { hold = false } = {}): Promise<Streams> {
  const bodies: string[] = [];
  let tellSent = (): void => {};
  let tellDropped = (): void => {};
  const sent = new Promise<void>((resolve) => {
    tellSent = resolve;
  });
  const dropped = new Promise<void>((resolve) => {
    tellDropped = resolve;
  });
  const send = (response: ServerResponse, text: string): void => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(text, () => tellSent());
    if (!hold) response.end();
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      bodies.push(Buffer.concat(chunks).toString("utf8"));
      send(response, texts[bodies.length - 1] ?? "");
    });
    response.on("close", () => response.writableFinished || tellDropped());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    bodies,
    sent,
    dropped,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}
