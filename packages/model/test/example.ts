import { setTimeout as sleep } from "node:timers/promises";
import { OFFERED_TOOLS, openRouter, ROUTER_LIMITS, toolSpecs } from "@dev/model";
import { startScripted } from "@dev/model/scripted";

/** Asks a model, here a scripted one, and gives back what it says. */
export async function example(): Promise<string> {
  const model = await startScripted([{ reply: { text: "Good morning." }, expect: ["Hello"] }]);
  const router = openRouter(
    { local: { wire: "openai-chat", baseUrl: model.url, key: null } },
    {
      sleep: (ms, signal) => sleep(ms, undefined, { signal }),
      random: Math.random,
      limits: ROUTER_LIMITS,
    },
  );
  let heard = "";
  const { answer } = await router.ask(
    {
      model: "local/any-name",
      effort: "default",
      prelude: "You are Dev.",
      messages: [{ kind: "user", text: "Hello", images: [] }],
      tools: toolSpecs(OFFERED_TOOLS),
    },
    (delta) => {
      heard += delta.text;
    },
    async (attempt, after) => {
      if (after !== null) console.warn(`try ${attempt}: ${after.message}`);
    },
    new AbortController().signal,
  );
  router.close();
  await model.close();
  return answer.kind === "reply" ? answer.text : `failed after ${heard}`;
}
