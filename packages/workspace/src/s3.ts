import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import { AwsClient } from "aws4fetch";
import {
  BLOB_LIMIT_BYTES,
  type BlobPage,
  type Blobs,
  type ByteRange,
  checkBlobName,
} from "./blobs.ts";

export type BucketOptions = {
  /** The bucket's own URL, such as `https://host/bucket`; a path below it puts the blobs there. */
  readonly url: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
  /** Waits so long; rejects when aborted. */
  readonly sleep: (ms: number, signal: AbortSignal | undefined) => Promise<void>;
  /** From 0 to below 1. */
  readonly random: () => number;
};

/** How often a request is made; the waits between double from the first, each cut at random. */
export const REQUEST_TRY_LIMIT = 5;
const WAIT_FIRST_MS = 200;
/** How long one request may take, whatever it carries. */
const REQUEST_LIMIT_MS = 120_000;
const PAGE_NAMES = 1_000;
/** What a server says that it is busy with. */
const BUSY: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);
const BODY_LIMIT_CHARACTERS = 300;

/**
 * Blobs as objects of an S3 bucket, each request signed (AWS Signature 4). `put` is one conditional request
 * (`If-None-Match: *`), which the server has to know. What a network or a busy server does is tried
 * again REQUEST_TRY_LIMIT times, and then is `unavailable`.
 */
export function bucketBlobs(options: BucketOptions): Blobs {
  const bucket = new Bucket(options);
  return {
    packing: "deflate",
    put: (name, content, signal) => bucket.put(name, content, signal),
    get: (name, range, signal) => bucket.get(name, range, signal),
    list: (prefix, after, signal) => bucket.list(prefix, after, signal),
    delete: (name, signal) => bucket.delete(name, signal),
  };
}

type Answer = { readonly status: number; readonly body: Uint8Array };
type Ask = {
  readonly method: "GET" | "PUT" | "DELETE";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
};

class Bucket {
  readonly #options: BucketOptions;
  readonly #client: AwsClient;
  readonly #url: string;
  /** What all keys begin with. */
  readonly #folder: string;
  /** The bucket itself, which is what is listed. */
  readonly #bucket: string;

  constructor(options: BucketOptions) {
    this.#options = options;
    const { accessKeyId, secretAccessKey, region, sessionToken } = options;
    const token = sessionToken === undefined ? {} : { sessionToken };
    // Tries are counted here, where their faults are told apart.
    this.#client = new AwsClient({
      accessKeyId,
      secretAccessKey,
      region,
      service: "s3",
      retries: 0,
      ...token,
    });
    this.#url = options.url.replace(/\/+$/, "");
    const { origin, pathname } = new URL(this.#url);
    const [bucket = "", ...folder] = pathname.split("/").filter((part) => part !== "");
    this.#bucket = `${origin}/${bucket}`;
    this.#folder = folder.map((part) => `${part}/`).join("");
  }

  async put(name: string, content: Uint8Array, signal?: AbortSignal) {
    checkBlobName(name);
    if (content.length > BLOB_LIMIT_BYTES) {
      return fail(fault("too_large", `a blob has at most ${BLOB_LIMIT_BYTES} bytes`, name));
    }
    const headers = { "if-none-match": "*", "content-type": "application/octet-stream" };
    const url = `${this.#url}/${name}`;
    const answer = await this.#ask(url, { method: "PUT", headers, body: content }, signal);
    if (!answer.ok) return answer;
    switch (answer.value.status) {
      case 200:
        return ok<"put" | "there">("put");
      // It was there; or another's request for it is under way, and will have put it.
      case 409:
      case 412:
        return ok<"put" | "there">("there");
      default:
        return fail(this.#refused("written", url, answer.value));
    }
  }

  async get(
    name: string,
    range: ByteRange | null,
    signal?: AbortSignal,
  ): Promise<Result<Uint8Array>> {
    checkBlobName(name);
    const url = `${this.#url}/${name}`;
    if (range?.length === 0) return ok(new Uint8Array());
    const headers: Record<string, string> = {};
    if (range !== null) {
      headers.range = `bytes=${range.offset}-${range.offset + range.length - 1}`;
    }
    const answer = await this.#ask(url, { method: "GET", headers }, signal);
    if (!answer.ok) return answer;
    const { status, body } = answer.value;
    if (status === 206 || (status === 200 && range === null)) return ok(body);
    // A server may answer with the whole.
    if (status === 200 && range !== null) {
      return ok(body.subarray(range.offset, range.offset + range.length));
    }
    // The range begins behind the end.
    if (status === 416) return ok(new Uint8Array());
    if (status === 404) return fail(fault("not_found", "there is no such blob", url));
    return fail(this.#refused("read", url, answer.value));
  }

  async list(prefix: string, after: string, signal?: AbortSignal): Promise<Result<BlobPage>> {
    const query = new URLSearchParams({
      "list-type": "2",
      "max-keys": String(PAGE_NAMES),
      prefix: this.#folder + prefix,
      ...(after === "" ? {} : { "start-after": this.#folder + after }),
    });
    const url = `${this.#bucket}?${query}`;
    const answer = await this.#ask(url, { method: "GET" }, signal);
    if (!answer.ok) return answer;
    if (answer.value.status !== 200) return fail(this.#refused("listed", url, answer.value));
    const text = Buffer.from(answer.value.body).toString();
    const keys = [...text.matchAll(/<Key>([^<]*)<\/Key>/g)].map(([, key = ""]) => key);
    const names = keys.map((key) => key.slice(this.#folder.length));
    const isCut = /<IsTruncated>true<\/IsTruncated>/.test(text);
    return ok({ names, next: isCut ? (names.at(-1) ?? null) : null });
  }

  async delete(name: string, signal?: AbortSignal): Promise<Result<void>> {
    checkBlobName(name);
    const url = `${this.#url}/${name}`;
    const answer = await this.#ask(url, { method: "DELETE" }, signal);
    if (!answer.ok) return answer;
    const isGone = [200, 204, 404].includes(answer.value.status);
    return isGone ? ok(undefined) : fail(this.#refused("deleted", url, answer.value));
  }

  /** Makes a request until it has an answer. Fault: `unavailable`. Rejects when it is aborted. */
  async #ask(url: string, ask: Ask, signal?: AbortSignal): Promise<Result<Answer>> {
    let why = "";
    for (let attempt = 1; attempt <= REQUEST_TRY_LIMIT; attempt++) {
      signal?.throwIfAborted();
      if (attempt > 1) {
        const longest = WAIT_FIRST_MS * 2 ** (attempt - 2);
        await this.#options.sleep(longest * (0.5 + this.#options.random() / 2), signal);
      }
      const limit = AbortSignal.timeout(REQUEST_LIMIT_MS);
      try {
        const response = await this.#client.fetch(url, {
          method: ask.method,
          headers: { ...ask.headers },
          ...(ask.body === undefined ? {} : { body: Buffer.from(ask.body) }),
          signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
        });
        const body = new Uint8Array(await response.arrayBuffer());
        if (!BUSY.has(response.status)) return ok({ status: response.status, body });
        why = `it answered ${response.status}`;
      } catch (error) {
        if (signal?.aborted === true) throw error;
        const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
        why = cause instanceof Error ? cause.message : String(cause);
      }
    }
    const message = `the bucket cannot be reached, ${REQUEST_TRY_LIMIT} times: ${why}`;
    return fail(fault("unavailable", message, url, "check the network, and try again"));
  }

  #refused(what: string, url: string, { status, body }: Answer): Fault {
    const text = Buffer.from(body).toString();
    const told = /<Code>([^<]*)<\/Code>/.exec(text)?.[1] ?? text.slice(0, BODY_LIMIT_CHARACTERS);
    const message = `it cannot be ${what}: the bucket answers ${status} ${told}`.trimEnd();
    if (status === 401 || status === 403) {
      return fault("unauthorized", message, url, "check the key, the secret and what they may do");
    }
    return fault("io", message, url, "check the bucket's URL and region");
  }
}
