import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Action, type Event, encodeAction, encodeEvent } from "../src/index.ts";
import { ACTIONS, EVENTS } from "./sample.ts";

/** A sample and the file that holds its bytes, as hexadecimal, 32 bytes a line. */
export type Golden =
  | { readonly kind: "event"; readonly name: string; readonly value: Event }
  | { readonly kind: "action"; readonly name: string; readonly value: Action };

export const GOLDENS: readonly Golden[] = [
  ...Object.entries(EVENTS).flatMap(([of, values]) =>
    values.map((value, index) => ({
      kind: "event" as const,
      name: `event-${of}-${index + 1}`,
      value,
    })),
  ),
  ...[...ACTIONS].flatMap(([of, values]) =>
    values.map((value, index) => ({
      kind: "action" as const,
      name: `action-${of}-${index + 1}`,
      value,
    })),
  ),
];

export function encodeGolden(golden: Golden): Uint8Array {
  return golden.kind === "event" ? encodeEvent(golden.value) : encodeAction(golden.value);
}

/** The committed bytes. With UPDATE_GOLDEN=1 they are written first, from what the code does now. */
export function goldenBytes(golden: Golden): Uint8Array {
  const path = goldenPath(golden.name);
  if (process.env.UPDATE_GOLDEN === "1") {
    const hex = Buffer.from(encodeGolden(golden)).toString("hex");
    writeFileSync(path, `${hex.match(/.{1,64}/g)?.join("\n")}\n`);
  }
  if (!existsSync(path)) throw new Error(`${path} is missing: UPDATE_GOLDEN=1 writes it`);
  return storedBytes(golden.name);
}

export function storedBytes(name: string): Uint8Array {
  const text = readFileSync(goldenPath(name), "utf8");
  return Uint8Array.from(Buffer.from(text.replaceAll("\n", ""), "hex"));
}

export function goldenPath(name: string): string {
  return fileURLToPath(new URL(`golden/${name}.hex`, import.meta.url));
}
