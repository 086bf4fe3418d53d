import { createHash, createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A small S3 server of the tests: it checks each signature and each condition as the real ones do. */
export type Stand = {
  readonly url: string;
  /** Requests that it has answered, as `METHOD status`. */
  readonly log: string[];
  /** What it does with the next requests instead of answering them. */
  readonly troubles: ("busy" | "cut" | "garbled")[];
  readonly close: () => Promise<void>;
};

export const KEY = { accessKeyId: "AKTEST", secretAccessKey: "se/cret", region: "test-1" };
const BUCKET = "snapshots";

export async function openStand(): Promise<Stand> {
  const objects = new Map<string, Buffer>();
  const log: string[] = [];
  const troubles: Stand["troubles"] = [];
  const server = createServer((request, response) => {
    void bodyOf(request).then((body) => {
      const trouble = troubles.shift();
      if (trouble === "cut") return void request.socket.destroy();
      if (trouble === "busy") return void response.writeHead(503).end("<html>busy</html>");
      if (trouble === "garbled") return void response.writeHead(400).end("<html>proxy</html>");
      const answer = answerTo(request, body, objects);
      log.push(`${request.method} ${answer.status}`);
      tell(response, answer);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/${BUCKET}`,
    log,
    troubles,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

type Answer = { readonly status: number; readonly body: Uint8Array | string };

function answerTo(request: IncomingMessage, body: Buffer, objects: Map<string, Buffer>): Answer {
  const flaw = signatureFlaw(request, body);
  if (flaw !== null) return failed(403, flaw);
  const url = new URL(request.url ?? "/", "http://host");
  const [, bucket, ...rest] = decodeURIComponent(url.pathname).split("/");
  if (bucket !== BUCKET) return failed(404, "NoSuchBucket");
  const key = rest.join("/");
  const known = objects.get(key);
  switch (request.method) {
    case "PUT":
      if (request.headers["if-none-match"] === "*" && known)
        return failed(412, "PreconditionFailed");
      objects.set(key, body);
      return { status: 200, body: "" };
    case "DELETE":
      objects.delete(key);
      return { status: 204, body: "" };
    default:
      if (key === "") return listing(url.searchParams, objects);
      return known === undefined ? failed(404, "NoSuchKey") : part(known, request.headers.range);
  }
}

function part(object: Buffer, range: string | undefined): Answer {
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range ?? "") ?? [];
  if (first === undefined) return { status: 200, body: object };
  if (Number(first) >= object.length) return failed(416, "InvalidRange");
  return { status: 206, body: object.subarray(Number(first), Number(last) + 1) };
}

function listing(query: URLSearchParams, objects: Map<string, Buffer>): Answer {
  if (query.get("list-type") !== "2") return failed(400, "InvalidArgument");
  const [prefix, after] = [query.get("prefix") ?? "", query.get("start-after") ?? ""];
  // Pages are shorter than is asked for, as a server's may be.
  const limit = Math.min(Number(query.get("max-keys") ?? 1000), 7);
  const keys = [...objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
  const page = keys.slice(0, limit);
  const contents = page.map((key) => `<Contents><Key>${key}</Key></Contents>`).join("");
  const isCut = keys.length > page.length;
  const body = `<ListBucketResult><IsTruncated>${isCut}</IsTruncated>${contents}</ListBucketResult>`;
  return { status: 200, body };
}

/** What is wrong with a request's signature, by AWS Signature Version 4; null if it is right. */
function signatureFlaw(request: IncomingMessage, body: Buffer): string | null {
  const { authorization = "", "x-amz-date": date, "x-amz-content-sha256": hash } = request.headers;
  const parts =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
      authorization,
    );
  if (parts === null || typeof date !== "string") return "AccessDenied";
  const [, key, day = "", region = "", signed = "", signature] = parts;
  if (key !== KEY.accessKeyId || region !== KEY.region) return "InvalidAccessKeyId";
  if (!date.startsWith(day)) return "AuthorizationHeaderMalformed";
  const names = signed.split(";");
  const isWhole = ["host", "x-amz-date"].every((name) => names.includes(name));
  if (!isWhole) return "AccessDenied";
  if (hash !== "UNSIGNED-PAYLOAD" && hash !== sha(body)) return "XAmzContentSHA256Mismatch";
  const url = new URL(request.url ?? "/", "http://host");
  const query = [...url.searchParams]
    .map(([name, value]) => `${encoded(name)}=${encoded(value)}`)
    .sort()
    .join("&");
  const headers = names.map((name) => `${name}:${String(request.headers[name] ?? "").trim()}\n`);
  const canonical = [request.method, url.pathname, query, headers.join(""), signed, hash].join(
    "\n",
  );
  const scope = `${day}/${region}/s3/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", date, scope, sha(Buffer.from(canonical))].join("\n");
  const secret = `AWS4${KEY.secretAccessKey}`;
  const signing = [day, region, "s3", "aws4_request"].reduce<string | Buffer>(
    (from, what) => createHmac("sha256", from).update(what).digest(),
    secret,
  );
  const expected = createHmac("sha256", signing).update(text).digest("hex");
  return expected === signature ? null : "SignatureDoesNotMatch";
}

function encoded(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (each) => {
    return `%${each.charCodeAt(0).toString(16).toUpperCase()}`;
  });
}

function sha(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function failed(status: number, code: string): Answer {
  return { status, body: `<Error><Code>${code}</Code></Error>` };
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const chunk of request) parts.push(chunk);
  return Buffer.concat(parts);
}

function tell(response: ServerResponse, { status, body }: Answer): void {
  response.writeHead(status).end(body);
}
