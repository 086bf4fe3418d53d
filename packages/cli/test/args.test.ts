import { expect, test } from "vitest";
import { asksForJson, COMMANDS, helpText, readCommand } from "../src/args.ts";

function command(...words: string[]) {
  const read = readCommand(words);
  if (!read.ok) throw new Error(read.fault.message);
  return read.value;
}

test("a prompt is all that exec needs", () => {
  expect(command("exec", "mend it")).toEqual({
    kind: "exec",
    directory: ".",
    model: null,
    mode: null,
    cell: "local",
    json: false,
    prompt: "mend it",
  });
});

test("flags stand before or after the prompt, and `--` ends them", () => {
  const whole = ["-C", "d", "-m", "p/m", "--mode", "plan", "--cell", "bubblewrap", "--json"];
  const expected = { directory: "d", model: "p/m", mode: "plan", cell: "bubblewrap", json: true };
  expect(command("exec", ...whole, "go")).toMatchObject({ ...expected, prompt: "go" });
  expect(command("exec", "go", ...whole)).toMatchObject({ ...expected, prompt: "go" });
  expect(command("exec", "--", "--json")).toMatchObject({ json: false, prompt: "--json" });
  expect(command("exec", "-")).toMatchObject({ prompt: "-" });
});

test("a program that reads JSON is known by its flag, and not by a prompt of that name", () => {
  expect(asksForJson(["ledger", "--verbose", "--json"])).toBe(true);
  expect(asksForJson(["exec", "--verbose", "--", "--json"])).toBe(false);
});

test("resume takes an id and perhaps a prompt", () => {
  expect(command("resume", "s_1")).toMatchObject({ kind: "resume", id: "s_1", prompt: null });
  expect(command("resume", "s_1", "more", "--json")).toMatchObject({ prompt: "more", json: true });
});

test.each([
  [["explode"], 'there is no command "explode"'],
  [["toString"], 'there is no command "toString"'],
  [["exec"], "it needs PROMPT"],
  [["exec", "mend", "it"], 'a word too many: "it"'],
  [["exec", "--mode", "yolo", "x"], "--mode is one of plan, ask, edits, full"],
  [["exec", "--cell", "moon", "x"], "--cell is one of local, bubblewrap"],
  [["exec", "--verbose", "x"], "--verbose"],
  [["exec", "x", "-C"], "-C"],
  [["sessions", "--mode", "ask"], "it takes no --mode"],
  [["sessions", "x"], "a word too many"],
  [["resume"], "it needs ID"],
])("%j is bad usage, and what is wrong is said", (words, said) => {
  const read = readCommand(words as string[]);
  expect(read.ok).toBe(false);
  if (!read.ok) {
    expect(read.fault.code).toBe("usage");
    expect(read.fault.message).toContain(said);
  }
});

test("every command has help, by name and by flag", () => {
  for (const name of Object.keys(COMMANDS)) {
    expect(command(name, "--help")).toEqual({ kind: "help", topic: name });
    const text = helpText(name);
    expect(text.ok && text.value).toContain(`usage: dev ${name}`);
    const all = helpText(null);
    expect(all.ok && all.value).toContain(name);
  }
  expect(command()).toEqual({ kind: "help", topic: null });
  expect(helpText("explode").ok).toBe(false);
});
