import { prelude } from "@dev/session";
import { expect, test, vi } from "vitest";

test("the README's example does what it says", () => {
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  const made = prelude("/some/project");
  if (made.ok) console.log(made.value); // who the agent is, and what AGENTS.md says
  expect(log).toHaveBeenCalledExactlyOnceWith(expect.stringContaining("You are Dev"));
  log.mockRestore();
});
