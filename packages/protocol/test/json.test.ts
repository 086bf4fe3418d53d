import fc from "fast-check";
import { expect, test } from "vitest";
import { actionFromJson, eventFromJson, type Result } from "../src/index.ts";
import { action, event } from "./arbitrary.ts";
import { GOLDENS } from "./golden.ts";
import { EVENTS } from "./sample.ts";

test("a value of the wrong type is refused at every place, by the path to it", () => {
  for (const golden of GOLDENS) {
    const read = golden.kind === "event" ? eventFromJson : actionFromJson;
    for (const place of placesOf(golden.value, [])) {
      const broken = structuredClone(golden.value);
      put(broken, place, null);
      expect(failure(read(broken))).toEqual({ code: "malformed", subject: pathOf(place) });
    }
  }
});

// An older release wrote none of these.
const LATER: readonly unknown[] = ["opaque", "costMicroUsd"];

test("a field that is missing is refused at every place, by the path to it", () => {
  for (const golden of GOLDENS) {
    const read = golden.kind === "event" ? eventFromJson : actionFromJson;
    for (const place of placesOf(golden.value, [])) {
      if (typeof place.at(-1) === "number" || LATER.includes(place.at(-1))) continue;
      const broken = structuredClone(golden.value);
      put(broken, place, undefined);
      expect(failure(read(broken))).toEqual({ code: "malformed", subject: pathOf(place) });
    }
  }
});

test("the path of a fault goes through lists and calls", () => {
  const [sample] = EVENTS.model;
  const broken = structuredClone(sample);
  put(broken, ["answer", "calls", 1, "op", "tools", 0], 7);
  expect(eventFromJson(broken)).toEqual({
    ok: false,
    fault: {
      code: "malformed",
      message: "Event: answer.calls[1].op.tools[0] is not text: 7",
      subject: "answer.calls[1].op.tools[0]",
      mend: "",
    },
  });
});

test("anything at all gives a result", () => {
  fc.assert(
    fc.property(
      fc.anything({ withBigInt: true, withDate: true, withNullPrototype: true }),
      (value) => {
        expect(failure(eventFromJson(value))?.code).toBe("malformed");
        expect(failure(actionFromJson(value))?.code).toBe("malformed");
      },
    ),
    { numRuns: 2000 },
  );
});

test("anything in the place of anything gives a result", () => {
  fc.assert(
    fc.property(event, action, fc.anything(), fc.nat(), (told, asked, value, chosen) => {
      for (const [given, read] of [
        [told, eventFromJson],
        [asked, actionFromJson],
      ] as const) {
        const broken = structuredClone(given);
        const places = placesOf(broken, []);
        put(broken, places[chosen % places.length] ?? [], value);
        const result = read(broken);
        // What was taken is whole: it is taken again, and is the same.
        if (result.ok) expect(read(result.value)).toStrictEqual(result);
        else expect(result.fault.code).toBe("malformed");
      }
    }),
    { numRuns: 2000 },
  );
});

test("a kind that is no kind is unknown, even if every object has it", () => {
  for (const kind of ["tick", "", "constructor", "__proto__", "toString", "hasOwnProperty"]) {
    expect(failure(eventFromJson({ kind }))).toEqual({ code: "malformed", subject: "kind" });
  }
  expect(failure(eventFromJson(Object.create({ kind: "timer" })))?.subject).toBe("kind");
  expect(failure(eventFromJson({ kind: ["timer"] }))?.subject).toBe("kind");
});

test("numbers that the wire cannot carry are refused", () => {
  for (const turn of [-1, 0.5, 2 ** 53, Number.NaN, Number.POSITIVE_INFINITY, "1", 1n, true]) {
    expect(failure(eventFromJson({ kind: "cancel", turn }))?.subject).toBe("turn");
  }
  expect(eventFromJson({ kind: "cancel", turn: -0 })).toStrictEqual({
    ok: true,
    value: { kind: "cancel", turn: 0 },
  });
});

test("half of a surrogate pair is refused, since it has no UTF-8", () => {
  for (const text of ["\ud83d", "a\udc00b"]) {
    expect(failure(eventFromJson({ kind: "steer", text }))?.subject).toBe("text");
  }
  expect(eventFromJson({ kind: "steer", text: "🜁" }).ok).toBe(true);
});

test("what a type does not name is left out", () => {
  expect(eventFromJson({ kind: "timer", atMs: 5 })).toStrictEqual({
    ok: true,
    value: { kind: "timer" },
  });
});

test("a fault quotes a long text only in part", () => {
  const read = eventFromJson({ kind: "x".repeat(1_000_000) });
  expect(read.ok ? 0 : read.fault.message.length).toBeLessThan(100);
});

type Place = readonly (string | number)[];

/** The way to every field and element of a value. */
function placesOf(value: unknown, above: Place): Place[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const place = [...above, Array.isArray(value) ? Number(name) : name];
    return [place, ...placesOf(inner, place)];
  });
}

function pathOf(place: Place): string {
  const steps = place.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`));
  return steps.join("").replace(/^\./, "");
}

/** Puts a value in a place; undefined takes away what is there. */
function put(root: unknown, place: Place, value: unknown): void {
  let holder = root as Record<string | number, unknown>;
  for (const step of place.slice(0, -1)) holder = holder[step] as typeof holder;
  const last = place.at(-1);
  if (last === undefined) return;
  if (value === undefined) delete holder[last];
  else holder[last] = value;
}

function failure(result: Result<unknown>): { code: string; subject: string } | undefined {
  return result.ok ? undefined : { code: result.fault.code, subject: result.fault.subject };
}
