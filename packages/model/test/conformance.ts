import { describe } from "vitest";
import { carry } from "./conformance/carry.ts";
import { connections, faults, secrets } from "./conformance/faults.ts";
import { formats } from "./conformance/formats.ts";
import type { WireNotation } from "./conformance/notation.ts";
import { breaks, replies, silences } from "./conformance/replies.ts";
import { limits, requests } from "./conformance/requests.ts";
import { oddities, streams } from "./conformance/streams.ts";
import { stops, tries } from "./conformance/tries.ts";

export type { Spoken, WireNotation } from "./conformance/notation.ts";
export { mixedPieces, PLAIN, piecesOf } from "./conformance/notation.ts";

/** Tests that hold of every wire, against real servers on loopback. */
export function wireConformance(name: string, notation: WireNotation): void {
  describe(`${name}: replies`, () => replies(notation));
  describe(`${name}: streams`, () => streams(notation));
  describe(`${name}: odd streams`, () => oddities(notation));
  describe(`${name}: streams that break`, () => breaks(notation));
  describe(`${name}: silence`, () => silences(notation));
  describe(`${name}: faults`, () => faults(notation));
  describe(`${name}: connections`, () => connections(notation));
  describe(`${name}: secrets`, () => secrets(notation));
  describe(`${name}: tries`, () => tries(notation));
  describe(`${name}: stopping`, () => stops(notation));
  describe(`${name}: limits`, () => limits(notation));
  describe(`${name}: what is carried`, () => carry(notation));
  describe(`${name}: requests`, () => requests(notation));
  describe(`${name}: formats`, () => formats(notation));
}
