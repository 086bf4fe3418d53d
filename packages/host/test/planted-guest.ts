import * as guest from "../src/guest.ts";

/*
 * The guest with a fault in it: sealed by the tests in place of the real one. What it does wrong is
 * what its config's prelude says, or a steer.
 */

let plant = "";
const held: string[] = [];

export function open(config: string): string {
  plant = JSON.parse(config).prelude;
  return guest.open(config);
}

export function step(event: string): string {
  const { text } = JSON.parse(event);
  act(plant);
  act(text);
  return guest.step(event);
}

export function snapshot(): string {
  act(plant);
  return guest.snapshot();
}

export function more(): string {
  return guest.more();
}

export function restore(text: string): string {
  plant = JSON.parse(text).config.prelude;
  act(plant === "trap at restore" ? "trap" : "");
  return guest.restore(text);
}

function act(what: string): void {
  switch (what) {
    case "trap":
      throw new Error("a trap");
    case "loop":
      for (;;);
    case "catch everything":
      for (;;) {
        try {
          act("loop");
        } finally {
          act("loop");
        }
      }
    // Long in the engine's own code: it would take years.
    case "search":
      "x".repeat(1 << 22).indexOf(`${"x".repeat(1 << 21)}y`);
      return;
    case "match":
      /^(x+x+)+y/.test("x".repeat(99));
      return;
    case "scan":
      [].indexOf.call({ length: Number.MAX_SAFE_INTEGER } as never, 1 as never);
      return;
    case "sort":
      for (;;) [3, 1, 2].sort((a, b) => a - b);
    case "copy":
      for (let text = "x".repeat(1 << 20); ; ) text = `${text.slice(1)}y`;
    case "hog":
      for (;;) held.push("x".repeat(1 << 20) + held.length);
    case "hog at once":
      held.push("x".repeat(1 << 29));
      return;
    case "hog in small parts":
      for (const all: unknown[] = []; ; ) all.push({ all });
    case "keep":
      held.push("x".repeat(1 << 23) + held.length);
      return;
    case "recurse":
      act("recurse");
      act("");
      return;
    case "recurse in the engine":
      JSON.parse("[".repeat(1 << 20));
      return;
  }
}
