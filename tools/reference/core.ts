import { DEFAULT_LIMITS, type Limits, SNAPSHOT_VERSION } from "@dev/core";
import type { FaultCode } from "@dev/protocol";
import { nodeAt, nodesAt } from "../syntax.ts";
import type { Tree } from "../tree.ts";
import { MEANINGS } from "./meaning.ts";
import { code, figure, type Parts, table } from "./page.ts";
import { codeGroups } from "./protocol.ts";
import { blocks } from "./shape.ts";
import { declared, membersOf, type Source, sourcesOf, variantsOf } from "./source.ts";

/** The generated parts of the core's page. */
export function coreParts(tree: Tree): Parts {
  const core = sourcesOf(tree, "core");
  const host = sourcesOf(tree, "host");
  return {
    config: () => fieldsOf(core, "Config"),
    kinds: () => fieldsOf(core, "AgentKind"),
    limits: () => limits(core),
    open: () => blocks([callOf(host, "openCore"), fieldsOf(host, "HostOptions")]),
    core: () => callsOf(host, "Core"),
    session: () => callsOf(host, "Session"),
    faults: () => faults(sourcesOf(tree, "protocol")),
    figures: () => figures(host),
    version: () => `This release writes version ${SNAPSHOT_VERSION} of the text.`,
  };
}

/** What comes of reaching a limit. A limit that is not said here does not compile. */
const REACHED: Readonly<Record<keyof Limits, string>> = {
  modelCallsPerTurn: "The turn ends. Calls of all its agents count, and those of compaction.",
  identicalReplies: "The turn ends; a sub-agent's ends that sub-agent, as a failed result.",
  callsPerReply: "None of the calls is run, and the turn ends; or that sub-agent, as above.",
  messageBytes:
    "A prompt: its turn ends, and nothing enters the conversation. A reply: the turn ends, or that sub-agent. Steers: they are joined, and cut in the middle.",
  resultBytes: "The middle of the result is cut, which the model is told.",
  conversationBytes: "The turn ends before its next ask, with every call answered.",
  tokensPerSession: "The turn ends, and so does each later one.",
  costMicroUsdPerSession: "The turn ends, and so does each later one.",
  compactPercent: "The conversation is compacted before the next ask.",
  keptBytes: "What is older goes into the summary.",
  agentDepth: "The spawn fails in place, with the figure.",
  agentCount: "The spawn fails in place, with the figure.",
  queuedTurns: "The turn that comes is ended at once.",
  steers: "The oldest are joined into one: no word is lost.",
};

function limits(sources: readonly Source[]): string {
  const docs = new Map(membersOf(declared(sources, "Limits")).map(({ name, doc }) => [name, doc]));
  const rows = Object.entries(DEFAULT_LIMITS).map(([name, value]) => [
    code(name),
    value === 0 ? "0: none" : figure(name, value),
    docs.get(name) ?? "",
    REACHED[name as keyof Limits],
  ]);
  return table(["limit", "default", "of what", "what reaching it does"], rows);
}

/** A type's fields with their docs; a table for each variant, where it is a union. */
function fieldsOf(sources: readonly Source[], name: string): string {
  return blocks(
    variantsOf(sources, name).map(({ members }) => {
      const rows = members.map((member) => {
        const optional = member.code.includes("?:") ? ", optional" : "";
        return [code(member.name), code(oneLine(member.type)) + optional, member.doc];
      });
      return table(["field", "type", "what it is"], rows);
    }),
  );
}

/** The figures that the files of a package export, with their docs. */
function figures(sources: readonly Source[]): string {
  const declarations = sources.flatMap((source) => [...source.declarations.values()]);
  const rows = declarations.flatMap(({ name, doc, node }) => {
    const value = nodeAt(nodesAt(node, "declarations")[0] ?? node, "init")?.value;
    return typeof value === "number" ? [[code(name), figure(name, value), doc]] : [];
  });
  return table(["limit", "figure", "of what"], rows);
}

/** An interface with its docs, and each of its calls with its own. */
function callsOf(sources: readonly Source[], name: string): string {
  const declaration = declared(sources, name);
  const rows = membersOf(declaration).map((member) => [code(oneLine(member.code)), member.doc]);
  return blocks([declaration.doc, table(["call", "what it does"], rows)]);
}

/** A function as it is called, with its docs. */
function callOf(sources: readonly Source[], name: string): string {
  const { node, doc, source } = declared(sources, name);
  const body = nodeAt(node, "body");
  const head = source.text.slice(node.start, body?.start).replace(/^function /, "");
  return blocks([`${code(oneLine(head))}: ${doc}`]);
}

function faults(sources: readonly Source[]): string {
  const words = codeGroups(sources).get("The core's host.") ?? [];
  const also: readonly FaultCode[] = ["newer_version"];
  const rows = [...words, ...also].map((word) => [code(word), MEANINGS[word]]);
  return table(["fault", "what it says"], rows);
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}
