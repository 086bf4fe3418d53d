import { type Fault, never } from "@dev/protocol";
import type { Candidate } from "../candidate.ts";
import { isTestFile } from "../locate/witness.ts";
import { type Proposal, readAnswer } from "./answer.ts";
import type { HeardEnd, Reply } from "./call.ts";
import { isInside, placed, type Refusal } from "./placement.ts";
import type { Outcome } from "./record.ts";
import type { Subject } from "./subject.ts";

/** What an answer is good for, before any test has run on it. */
export type Verdict =
  | { readonly kind: "candidate"; readonly candidate: Candidate }
  /** It is refused for how it is written, and may be sent back. */
  | {
      readonly kind: "refusal";
      readonly outcome: Outcome;
      readonly reply: Reply;
      readonly refusal: Refusal;
    }
  /** It would need to see this file. */
  | { readonly kind: "context"; readonly file: string }
  /** No text came, and another call may bring one. */
  | { readonly kind: "silence"; readonly outcome: Outcome; readonly why: string }
  | { readonly kind: "none"; readonly outcome: Outcome; readonly why: string };

/**
 * Judges how a call ended; `prompt` is the text that it was asked, `given` the edits that answers
 * gave before.
 */
export async function verdictOf(
  end: Exclude<HeardEnd, { readonly kind: "cancelled" }>,
  subject: Subject,
  prompt: string,
  given: ReadonlyMap<string, unknown>,
): Promise<Verdict> {
  switch (end.kind) {
    case "failed":
      return { kind: "silence", outcome: "failed", why: faultText(end.fault) };
    case "empty":
      return { kind: "silence", outcome: "empty", why: end.why };
    case "text":
      return textVerdict(end.reply, subject, prompt, given);
    default:
      return never(end);
  }
}

/** What makes two candidates the same: their edits. */
export function keyOf(candidate: Candidate): string {
  return JSON.stringify(candidate.edits);
}

export function faultText({ code, message }: Fault): string {
  return `${code}: ${message}`;
}

async function textVerdict(
  reply: Reply,
  subject: Subject,
  prompt: string,
  given: ReadonlyMap<string, unknown>,
): Promise<Verdict> {
  const reading = readAnswer(reply.text);
  const refusal = (outcome: Outcome, why: string): Verdict => ({
    kind: "refusal",
    outcome,
    reply,
    refusal: {
      why: reply.stop === "length" ? `${why} (it was cut at its limit)` : why,
      place: null,
    },
  });
  switch (reading.kind) {
    case "no_json":
      return refusal("no_json", "there is no JSON in it");
    case "unreadable":
      return refusal("unreadable", reading.why);
    case "no_edits": {
      const file = await neededOf(reading.names, subject, prompt);
      if (file !== null) return { kind: "context", file };
      return {
        kind: "none",
        outcome: "no_edits",
        why: "it has no edits, and names no file to see",
      };
    }
    case "edits": {
      const placement = placed(reading.proposals, await textsOf(reading.proposals, subject));
      if (placement.kind === "refused") {
        return { kind: "refusal", outcome: "refused", reply, refusal: placement.refusal };
      }
      const candidate = candidateOf(placement.edits, placement.line, subject);
      if (!given.has(keyOf(candidate))) return { kind: "candidate", candidate };
      return { kind: "none", outcome: "tried", why: "the same edits were given before" };
    }
    default:
      return never(reading);
  }
}

/** The first of these that is a file of the workspace, and is not shown whole yet. */
async function neededOf(
  names: readonly string[],
  subject: Subject,
  prompt: string,
): Promise<string | null> {
  for (const name of names) {
    if (!isInside(name) || prompt.includes(`=== ${name} (all of it)`)) continue;
    if ((await subject.text(name)) !== null) return name;
  }
  return null;
}

/** The texts of those files that may be edited. */
async function textsOf(
  proposals: readonly Proposal[],
  subject: Subject,
): Promise<(file: string) => string | null> {
  const texts = new Map<string, string | null>();
  for (const { file } of proposals) {
    const name = file.replace(/^(\.\/)+/, "");
    if (isInside(name) && mayEdit(name, subject)) texts.set(name, await subject.text(name));
  }
  return (file) => texts.get(file) ?? null;
}

/**
 * A test that was made to pass by changing it is no test; where tests and code share a file, it is
 * ranked.
 */
function mayEdit(file: string, { ranking, tests }: Subject): boolean {
  if (ranking.some((place) => place.file === file)) return true;
  return !tests.includes(file) && !isTestFile(file);
}

function candidateOf(edits: Candidate["edits"], line: number, { ranking }: Subject): Candidate {
  const file = edits[0]?.file ?? "";
  const inside = ranking
    .filter((place) => place.file === file && place.firstLine <= line && line <= place.lastLine)
    .toSorted((a, b) => a.lastLine - a.firstLine - (b.lastLine - b.firstLine));
  const site = { file, line, function: inside[0]?.function ?? null };
  return { edits, operator: "model", site, weight: 1 };
}
