import { expect, test } from "vitest";
import { kill } from "./support/crash-process.ts";
import { openDesk, threadOf } from "./support/dev.ts";
import { checkPrefixes, run, say } from "./support/script.ts";

const LIMIT_MS = 60_000;

test("what a model is sent only grows, to the byte: over a crash, and over turns", {
  timeout: LIMIT_MS,
}, async () => {
  const twins = ["a", "b"].map((path) => ({ tool: "read", arguments: { path }, id: "twin" }));
  const desk = await openDesk(
    [
      {
        reply: {
          text: 'ünï\u2028cödé "🎉" \\u0041',
          reasoning: "hm",
          calls: [{ tool: "read", arguments: { path: "a.txt" } }],
        },
      },
      { reply: { calls: [{ tool: "read", arguments: "{bad" }, ...twins] } },
      say("", run("printf '\\377\\000\\033[1m'; printf '\\360\\237' >&2; exit 3")),
      { ...say("never heard"), gate: "never" },
      say("", ["plan", { items: [{ text: "x", status: "done" }] }]),
      say("done"),
      say("more"),
    ],
    { "a.txt": "caf\u00e9 \u{1f600}\r\n\ttab\n" },
  );
  try {
    const started = desk.start(["exec", "--json", "--mode", "full", "dö it\n"]);
    await desk.model.request(4);
    await kill(started);
    const id = threadOf(await started.ended);
    expect(await desk.run(["resume", "--mode", "full", id])).toMatchObject({ stdout: "done\n" });
    expect(await desk.run(["resume", id, "and?"])).toMatchObject({ stdout: "more\n" });
    const { requests } = desk.model;
    expect(requests).toHaveLength(7);
    expect(requests[4]?.body).toBe(requests[3]?.body);
    checkPrefixes(requests);
    expect(desk.model.errors).toEqual([]);
  } finally {
    await desk.close();
  }
});
