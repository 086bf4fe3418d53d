import type { Example } from "../compare.ts";
import type { FileText } from "../verify.ts";
import { objectWith } from "./answer.ts";
import type { Prompt, Schema } from "./asker.ts";
import { fileChange } from "./change.ts";
import { failureText, user } from "./prompt.ts";
import type { Subject } from "./subject.ts";

/** What is said of candidates that all pass and differ. */
export type Chosen =
  | { readonly kind: "chosen"; readonly index: number; readonly why: string }
  | { readonly kind: "undecided"; readonly why: string };

export const CHOICE_LIMITS = { candidateCount: 10, changeChars: 4_000, whyChars: 500 } as const;

const CHOICE_SCHEMA: Schema = {
  name: "choice",
  schema: {
    type: "object",
    properties: { choice: { type: "integer", minimum: 0 }, why: { type: "string" } },
    required: ["choice", "why"],
    additionalProperties: false,
  },
};

const PRELUDE = `A test failed. Each of the changes below makes it pass, and they do not all do the same.
Answer with one JSON object and nothing else: "choice" is the number of the change that mends the cause as the code is meant, for all inputs; 0 where that cannot be told. "why" says why in a sentence.`;

/** Asks which of these is meant, in their order; `example` is an input on which they differ. */
export function choicePrompt(
  subject: Subject,
  fixes: readonly (readonly FileText[])[],
  example: Example | null,
): Prompt {
  const { candidateCount, changeChars } = CHOICE_LIMITS;
  const changes = fixes.slice(0, candidateCount).map((files, at) => {
    const outcome = example?.outcomes[at];
    const said = outcome === undefined ? "" : `\nOf ${example?.input} it makes ${outcome}.`;
    return `Change ${at + 1}:\n${files.map(fileChange).join("\n").slice(0, changeChars)}${said}`;
  });
  const text = [failureText(subject), ...changes].join("\n\n");
  return { prelude: PRELUDE, messages: [user(text)], schema: CHOICE_SCHEMA };
}

export function readChoice(text: string, count: number): Chosen {
  const said = objectWith(text, "choice");
  if (said === null) return { kind: "undecided", why: "the answer does not read" };
  const why = typeof said.why === "string" ? said.why.slice(0, CHOICE_LIMITS.whyChars) : "";
  const { choice } = said;
  if (choice === 0) return { kind: "undecided", why: why === "" ? "it cannot be told" : why };
  const most = Math.min(count, CHOICE_LIMITS.candidateCount);
  if (typeof choice === "number" && Number.isSafeInteger(choice) && 1 <= choice && choice <= most) {
    return { kind: "chosen", index: choice - 1, why };
  }
  return { kind: "undecided", why: `there is no change ${JSON.stringify(choice)}` };
}
