import { fail, fault, type Result } from "@dev/protocol";

/**
 * Named bytes that never change once they are there. Each implementation passes `test/blobs.ts`.
 * Names are as `isBlobName` has them. Faults of all: `io`, `unavailable` (worth trying later),
 * `unauthorized`.
 */
export interface Blobs {
  /** What a byte costs here: `raw` where less than compressing it, `deflate` where more. */
  readonly packing: "raw" | "deflate";
  /**
   * Writes a blob unless there is one of this name: of two that write at once exactly one is answered
   * `put`. Durable, and whole, when the promise resolves. Fault: `too_large`.
   */
  put(name: string, content: Uint8Array, signal?: AbortSignal): Promise<Result<"put" | "there">>;
  /** A blob's bytes, or a range of them, which may end early where the blob does. Fault: `not_found`. */
  get(name: string, range: ByteRange | null, signal?: AbortSignal): Promise<Result<Uint8Array>>;
  /** A page of the names that begin with `prefix` and come after `after` ("" for the first), in order. */
  list(prefix: string, after: string, signal?: AbortSignal): Promise<Result<BlobPage>>;
  /** Removes a blob; one that is not there is removed already. */
  delete(name: string, signal?: AbortSignal): Promise<Result<void>>;
}

export type ByteRange = { readonly offset: number; readonly length: number };

export type BlobPage = {
  readonly names: readonly string[];
  /** What the next page comes after; null after the last one. */
  readonly next: string | null;
};

/** The largest blob; every bucket takes this much in one request. */
export const BLOB_LIMIT_BYTES: number = 128 * 1024 * 1024;
/** Pages of one listing: a server that never ends it is not followed for ever. */
const PAGE_LIMIT = 10_000;

/** Words of `a-z0-9._-`, of which none begins with a dot, with slashes between. */
export function isBlobName(name: string): boolean {
  return name.length <= 512 && /^[a-z0-9_-][a-z0-9._-]*(\/[a-z0-9_-][a-z0-9._-]*)*$/.test(name);
}

/** Throws at a name that is none: whoever made it has a bug. */
export function checkBlobName(name: string): void {
  if (!isBlobName(name)) throw new Error(`not a blob's name: ${JSON.stringify(name)}`);
}

/** All names that begin with `prefix`. Faults: those of `list`; `limit`, when the listing has no end. */
export async function listAll(
  blobs: Blobs,
  prefix: string,
  signal?: AbortSignal,
): Promise<Result<readonly string[]>> {
  const names: string[] = [];
  let after = "";
  for (let page = 0; page < PAGE_LIMIT; page++) {
    const found = await blobs.list(prefix, after, signal);
    if (!found.ok) return found;
    names.push(...found.value.names);
    if (found.value.next === null) return { ok: true, value: names };
    after = found.value.next;
  }
  return fail(fault("limit", `the listing has more than ${PAGE_LIMIT} pages`, prefix));
}
