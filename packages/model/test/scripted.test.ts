import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rolldown } from "rolldown";
import { expect, test } from "vitest";
import { parseScript, type Script, type Scripted, startScripted } from "../src/scripted.ts";
import { type Asked, askOnce, faultOf } from "./endpoint.ts";

async function play<T>(script: Script, body: (scripted: Scripted) => Promise<T>): Promise<T> {
  const scripted = await startScripted(script);
  try {
    return await body(scripted);
  } finally {
    await scripted.close();
  }
}

const ask = ({ url }: Scripted, limits = {}): Promise<Asked> =>
  askOnce({ wire: "openai-chat", url, limits });

test("a script is said step by step", async () => {
  const calls = [{ tool: "read", arguments: { path: "a" } }];
  const usage = { input: 9, output: 8, cached: 7, reasoning: 6 };
  const script: Script = [
    { reply: { text: "Let me see 🎉", reasoning: "hm", calls }, usage },
    (request) => ({ reply: { text: `you said ${request.messages.at(-1)?.content}` } }),
  ];
  await play(script, async (scripted) => {
    const first = await ask(scripted);
    expect(first.answer).toMatchObject({
      text: "Let me see 🎉",
      reasoning: "hm",
      calls: [{ ref: "call_1_0", op: { kind: "read", path: "a" } }],
    });
    expect(first.usage).toEqual({
      inputTokens: 9,
      cachedTokens: 7,
      outputTokens: 8,
      reasoningTokens: 6,
    });
    expect((await ask(scripted)).answer).toMatchObject({ text: "you said Hello" });
    expect(scripted.errors).toEqual([]);
    expect(scripted.requests.map(({ count, hasKey }) => [count, hasKey])).toEqual([
      [1, true],
      [2, true],
    ]);
  });
});

test("a step for a conversation is left for it, whatever is asked before", async () => {
  const say = (text: string, when?: string) => ({ reply: { text }, ...(when && { when }) });
  const script = [say("one"), say("hello yourself", "Hello"), say("never", "else"), say("two")];
  await play(script, async (scripted) => {
    const said: unknown[] = [];
    for (let at = 0; at < 4; at++) said.push((await ask(scripted)).answer);
    expect(said).toMatchObject([
      { text: "hello yourself" },
      { text: "one" },
      { text: "two" },
      { kind: "failed" },
    ]);
    expect(scripted.errors).toEqual(["the script has 4 steps, and none is left for request 4"]);
  });
});

test("a script that has run out errs, and is not asked again", async () => {
  await play([], async (scripted) => {
    const asked = await ask(scripted);
    expect(faultOf(asked).message).toContain(
      "the script has 0 steps, and none is left for request 1",
    );
    expect(scripted.errors).toHaveLength(1);
    expect(scripted.requests).toHaveLength(1);
  });
});

test("a request that is not as expected errs", async () => {
  const script: Script = [
    { reply: { text: "a" }, expect: ["Hello"] },
    { reply: { text: "b" }, expect: ["Goodbye"] },
    { reply: { text: "c" }, expect: ({ tools }) => tools.length > 0 },
  ];
  await play(script, async (scripted) => {
    expect((await ask(scripted)).answer.kind).toBe("reply");
    expect(faultOf(await ask(scripted)).message).toContain("Goodbye");
    expect(faultOf(await ask(scripted)).message).toContain("predicate");
    expect(scripted.errors).toHaveLength(2);
  });
});

test("a gate holds a reply until it is released", async () => {
  await play([{ reply: { text: "now" }, gate: "door" }], async (scripted) => {
    let heard = false;
    const asked = ask(scripted).then((answered) => {
      heard = true;
      return answered;
    });
    await scripted.request(1);
    expect(heard).toBe(false);
    scripted.release("door");
    expect((await asked).answer).toMatchObject({ text: "now" });
  });
});

const reply = { text: "some text" };
const limits = { firstByteMs: 40, idleMs: 40, attemptCount: 1 };

test.each<[string, Script[number], object]>([
  ["refuse", { fault: { kind: "refuse" } }, { code: "unreachable" }],
  ["hang", { fault: { kind: "hang" } }, { code: "silent" }],
  ["hang_after", { fault: { kind: "hang_after", bytes: 300, reply } }, { code: "silent" }],
  ["cut", { fault: { kind: "cut", bytes: 300, reply } }, { code: "cut" }],
  ["status", { fault: { kind: "status", status: 500 } }, { code: "overloaded" }],
  ["garbage", { fault: { kind: "garbage" } }, { code: "garbled" }],
  [
    "half_call",
    { fault: { kind: "half_call", call: { tool: "read", arguments: { path: "a" } }, end: "cut" } },
    { code: "cut" },
  ],
])("the fault %s is what it says", async (_, step, fault) => {
  await play([step], async (scripted) => {
    expect(faultOf(await ask(scripted, limits))).toMatchObject(fault);
  });
});

test("429 and then a reply is one answer of two tries", async () => {
  const script: Script = [
    { fault: { kind: "status", status: 429, headers: { "retry-after": "1" } } },
    { fault: { kind: "slow", gapMs: 1, reply } },
  ];
  await play(script, async (scripted) => {
    const asked = await ask(scripted);
    expect(asked.answer).toMatchObject(reply);
    expect(asked.attempts.map((after) => after?.code)).toEqual([undefined, "rate_limited"]);
  });
});

test("half a call at a length limit is invalid", async () => {
  const call = { tool: "exec", arguments: { command: "rm -rf build" } };
  await play([{ fault: { kind: "half_call", call, end: "length" } }], async (scripted) => {
    const { answer } = await ask(scripted);
    expect(answer).toMatchObject({ stop: "length", calls: [{ op: { kind: "invalid" } }] });
  });
});

test("a script in a file is checked", () => {
  expect(parseScript('[{"reply":{"text":"a"},"expect":["b"]}]').ok).toBe(true);
  expect(parseScript('[{"fault":{"kind":"cut","bytes":3,"reply":{}}}]').ok).toBe(true);
  for (const bad of ["[", "{}", '[{"reply":{"txt":"a"}}]', '[{"fault":{"kind":"nap"}}]']) {
    expect(parseScript(bad)).toMatchObject({ ok: false, fault: { code: "usage" } });
  }
});

test("it runs on its own from a file, and says at the end what went wrong", async () => {
  const directory = await mkdtemp(join(tmpdir(), "scripted-"));
  try {
    await bundleMain(directory);
    await writeFile(join(directory, "script.json"), JSON.stringify([{ reply }]));
    const argv = [join(directory, "main.mjs"), join(directory, "script.json")];
    const child = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "pipe"] });
    const [line] = (await once(child.stdout, "data")) as [Buffer];
    const url = line.toString().trim();
    expect((await askOnce({ wire: "openai-chat", url })).answer).toMatchObject(reply);
    expect((await askOnce({ wire: "openai-chat", url })).answer.kind).toBe("failed");
    const complained = once(child.stderr, "data") as Promise<[Buffer]>;
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    expect((await complained)[0].toString()).toContain("the script has 1 steps");
    expect((await exited)[0]).toBe(1);
  } finally {
    await rm(directory, { recursive: true });
  }
});

async function bundleMain(directory: string): Promise<void> {
  const build = await rolldown({
    input: new URL("../src/scripted-main.ts", import.meta.url).pathname,
    platform: "node",
    resolve: { conditionNames: ["source", "import", "node"] },
  });
  await build.write({ file: join(directory, "main.mjs"), format: "esm" });
}
