import { promisify } from "node:util";
import { deflateRaw, deflateRawSync, inflateRawSync } from "node:zlib";
import { type Digest, fail, fault, ok, type Result } from "@dev/protocol";
import { ByteReader, ByteWriter } from "./bytes.ts";
import { digestOf } from "./content.ts";

/** Where an object lies in a pack. */
export type PackedObject = {
  readonly digest: Digest;
  readonly offset: number;
  readonly storedBytes: number;
  readonly sizeBytes: number;
  readonly codec: "raw" | "deflate";
};

/** What a pack holds; the digest of its encoding is the pack's name. */
export type PackIndex = { readonly madeMs: number; readonly objects: readonly PackedObject[] };

/** An object that is to be packed. */
export type Loose = { readonly digest: Digest; readonly content: Uint8Array };

/** A pack is closed when it holds this much. */
export const PACK_BYTES: number = 64 * 1024 * 1024;
/** The largest object: a directory of half a million entries is. */
export const OBJECT_LIMIT_BYTES: number = 48 * 1024 * 1024;
/** The least that is tried to be compressed, and how much of it is tried first. */
const DEFLATE_LEAST_BYTES = 512;
const SAMPLE_BYTES = 4096;
/** What the sample, and then the whole, has to shrink to. */
const DEFLATE_WORTH = 0.8;
/** Objects compressed at a time: as many as the threads for it. */
const DEFLATE_COUNT = 4;
const MAGIC = 0x44; // "D"
const FORMAT = 1;

const deflate = promisify(deflateRaw);

/** Lays objects one behind the other, compressed where that pays. */
export async function layPack(
  loose: readonly Loose[],
  packing: "raw" | "deflate",
  madeMs: number,
): Promise<{ readonly content: Buffer; readonly index: PackIndex }> {
  const parts: Uint8Array[] = [];
  const objects: PackedObject[] = [];
  let offset = 0;
  for (let at = 0; at < loose.length; at += DEFLATE_COUNT) {
    const group = loose.slice(at, at + DEFLATE_COUNT);
    const stored =
      packing === "raw"
        ? group.map(({ content }) => content)
        : await Promise.all(group.map(({ content }) => smaller(content)));
    for (const [nth, { digest, content }] of group.entries()) {
      const part = stored[nth] ?? content;
      const codec = part === content ? "raw" : "deflate";
      const [storedBytes, sizeBytes] = [part.length, content.length];
      objects.push({ digest, offset, storedBytes, sizeBytes, codec });
      parts.push(part);
      offset += storedBytes;
    }
  }
  return { content: Buffer.concat(parts, offset), index: { madeMs, objects } };
}

/** Takes an object out of what its pack has of it. Fault `corrupt`: it is not what its name says. */
export function unpack(stored: Uint8Array, object: PackedObject, pack: string): Result<Uint8Array> {
  const { codec, digest, sizeBytes } = object;
  let content = stored;
  if (codec === "deflate") {
    try {
      content = inflateRawSync(stored, { maxOutputLength: Math.max(1, sizeBytes) });
    } catch {
      return fail(damaged(digest, pack));
    }
  }
  return digestOf(content) === digest ? ok(content) : fail(damaged(digest, pack));
}

export function encodeIndex({ madeMs, objects }: PackIndex): Buffer {
  const out = new ByteWriter(32 + objects.length * 48);
  out.byte(MAGIC);
  out.byte(FORMAT);
  out.double(madeMs);
  out.count(objects.length);
  for (const { digest, offset, storedBytes, sizeBytes, codec } of objects) {
    out.digest(digest);
    out.count(offset);
    out.count(storedBytes);
    out.count(sizeBytes);
    out.byte(codec === "raw" ? 0 : 1);
  }
  return out.content;
}

/** Faults: `corrupt`, `newer_version`. */
export function decodeIndex(content: Uint8Array, name: string): Result<PackIndex> {
  try {
    const from = new ByteReader(content);
    if (from.byte() !== MAGIC) throw new Error("not an index");
    const format = from.byte();
    if (format > FORMAT) {
      const message = `the index is of format ${format}; this Dev reads up to ${FORMAT}`;
      return fail(fault("newer_version", message, name, "install the newest Dev"));
    }
    if (digestOf(content) !== name.split("/").at(-1)) throw new Error("its digest is another");
    const madeMs = from.double();
    const count = from.count();
    const objects: PackedObject[] = [];
    for (let at = 0; at < count; at++) {
      const [digest, offset, storedBytes] = [from.digest(), from.count(), from.count()];
      const [sizeBytes, codec] = [from.count(), from.byte() === 0 ? "raw" : "deflate"] as const;
      objects.push({ digest, offset, storedBytes, sizeBytes, codec });
    }
    return ok({ madeMs, objects });
  } catch (error) {
    const mend = "move this file aside: what its pack alone held is lost, all else is not";
    return fail(fault("corrupt", `a pack's index: ${(error as Error).message}`, name, mend));
  }
}

async function smaller(content: Uint8Array): Promise<Uint8Array> {
  if (content.length < DEFLATE_LEAST_BYTES) return content;
  const sample = content.subarray(0, SAMPLE_BYTES);
  const tried = deflateRawSync(sample, { level: 1 });
  if (tried.length > sample.length * DEFLATE_WORTH) return content;
  const stored = sample.length === content.length ? tried : await deflate(content, { level: 1 });
  return stored.length > content.length * DEFLATE_WORTH ? content : stored;
}

function damaged(digest: Digest, pack: string) {
  const mend = "restore this file from a backup, or go back to another snapshot";
  return fault("corrupt", `object ${digest} is damaged`, pack, mend);
}
