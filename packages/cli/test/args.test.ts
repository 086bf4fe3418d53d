import { expect, test } from "vitest";
import { asksForJson, CELLS, COMMANDS, helpText, readCommand } from "../src/args.ts";

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
    images: [],
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

test("images go with a prompt, as many as are given", () => {
  expect(command("exec", "--image", "a.png", "look", "--image=b.png")).toMatchObject({
    prompt: "look",
    images: ["a.png", "b.png"],
  });
  expect(command("resume", "s_1", "look", "--image", "c.png")).toMatchObject({ images: ["c.png"] });
});

test.each([
  [["resume", "s_1", "--image", "a.png"], "--image goes with a prompt"],
  [["sessions", "--image", "a.png"], "it takes no --image"],
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

test("help says how a conversation is shortened, and how many images there may be", () => {
  for (const name of ["exec", "resume"]) {
    const text = helpText(name);
    expect(text.ok && text.value).toContain("The prompt `/compact`");
    expect(text.ok && text.value).toContain("at most 20, 2,750,000 bytes together");
  }
  const other = helpText("sessions");
  expect(other.ok && other.value).not.toContain("/compact");
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

test("every kind of cell that there is can be asked for, but those of servers", async () => {
  const { VENDORS } = await import("@dev/cell");
  const kinds = Object.keys(VENDORS).filter((name) => name !== "kubernetes");
  expect([...CELLS].sort()).toEqual(kinds.sort());
  for (const cell of kinds) {
    expect(readCommand(["exec", "--cell", cell, "x"])).toMatchObject({ ok: true, value: { cell } });
  }
});
