import type { Scenario } from "./scenario.ts";
import { AGENT_SCENARIOS } from "./scenarios/agents.ts";
import { COMPACTION_SCENARIOS } from "./scenarios/compaction.ts";
import { LIMIT_SCENARIOS } from "./scenarios/limits.ts";
import { PLAIN_SCENARIOS } from "./scenarios/plain.ts";
import { WORD_SCENARIOS } from "./scenarios/words.ts";

export const SCENARIOS: readonly Scenario[] = [
  ...PLAIN_SCENARIOS,
  ...AGENT_SCENARIOS,
  ...COMPACTION_SCENARIOS,
  ...WORD_SCENARIOS,
  ...LIMIT_SCENARIOS,
];

export function scenarioNamed(name: string): Scenario {
  const found = SCENARIOS.find((each) => each.name === name);
  if (found === undefined) throw new Error(`no scenario is called ${name}`);
  return found;
}
