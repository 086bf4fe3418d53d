import type { Message } from "@dev/protocol";
import { fail, fault, ok, type Result } from "@dev/protocol";
import { kept } from "./config.ts";
import { messageJson } from "./conversation.ts";
import type { State } from "./state.ts";

/** The version that is written. Every version ever written has its reader here. */
export const SNAPSHOT_VERSION = 1;

/**
 * Writes a state as text. Equal states give equal text. Each message was encoded when it was
 * weighed, so that a snapshot costs its bytes. The host adds a checksum, which a byte loop here would be slow at.
 */
export function snapshot(state: State): string {
  const { agent, ...rest } = state;
  const { messages, ...standing } = agent;
  const encoded = messages.map(messageJson).join(",");
  return `{"version":${SNAPSHOT_VERSION},"state":${JSON.stringify(rest)},"agent":${JSON.stringify(standing)},"messages":[${encoded}]}`;
}

/** Reads what `snapshot` wrote. Faults: `malformed`, `newer_version`. */
export function restore(text: string): Result<State> {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return fail(fault("malformed", "a snapshot's text is not JSON"));
  }
  const version = (read as { readonly version?: unknown } | null)?.version;
  if (version === 1) return readVersion1(read as Version1);
  if (typeof version === "number" && version > SNAPSHOT_VERSION) {
    return fail(
      fault("newer_version", `a snapshot of version ${version}`, "", "use a newer release of dev"),
    );
  }
  return fail(fault("malformed", "a snapshot without a version"));
}

type Version1 = {
  readonly version: 1;
  readonly state: Omit<State, "agent">;
  readonly agent: Omit<State["agent"], "messages">;
  readonly messages: readonly Message[];
};

function readVersion1(read: Version1): Result<State> {
  if (
    !Array.isArray(read.messages) ||
    typeof read.state?.nextAction !== "number" ||
    typeof read.state.config?.limits !== "object" ||
    typeof read.agent?.phase?.kind !== "string"
  ) {
    return fail(fault("malformed", "a snapshot that lacks a part"));
  }
  // The order of the keys is that of `snapshot`, so that a restored state writes the same bytes.
  const { id, ...standing } = read.agent;
  const { config, ...state } = read.state;
  return ok({
    config: kept(config),
    ...state,
    agent: { id, messages: read.messages, ...standing },
  });
}
