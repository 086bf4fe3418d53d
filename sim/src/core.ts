import type { AgentKind, Config } from "@dev/core";
import { type Core, type HostOptions, openCore } from "@dev/host";
import type { ToolSpec } from "@dev/protocol";
import type { Scenario } from "./scenario.ts";

export type HostName = HostOptions["host"];

export const HOST_NAMES: readonly HostName[] = ["native", "wasm"];

/** The host that runs a seed's cases unless they say otherwise: of four seeds two have each. */
export function hostOf(seed: number): HostName {
  return HOST_NAMES[Math.floor(seed / 2) % HOST_NAMES.length] ?? "native";
}

/**
 * The real core in a real host. A deadline in real time would be chance that no seed decides; that of the
 * wasm host is fuel, which is the same whenever a case is run.
 */
export function openHost(host: HostName): Core {
  return host === "native"
    ? openCore({ host, deadlineMs: Number.POSITIVE_INFINITY })
    : openCore({ host });
}

/** What a scenario's session is made with. */
export function configOf({ limits, windowTokens }: Scenario): Config {
  return {
    model: "simulated/actor",
    effort: "default",
    prelude: "You act.",
    tools: ["read", "write", "patch", "exec", "question", "plan", "spawn"].map(tool),
    limits,
    windowTokens,
    images: false,
    agents: [READER],
  };
}

/** A kind of sub-agent that is another one than whoever spawns it. */
const READER: AgentKind = {
  name: "reader",
  description: "reads",
  prelude: "You read.",
  model: "simulated/reader",
  windowTokens: 0,
  tools: ["read"],
};

function tool(name: string): ToolSpec {
  return { name, description: `to ${name}`, parameters: "{}" };
}
