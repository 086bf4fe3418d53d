/** What the first bytes of a connection say. */
export type Hello =
  | { readonly kind: "more" }
  /** `name` is the server that it names (RFC 6066), null where it names none. */
  | { readonly kind: "hello"; readonly name: string | null }
  | { readonly kind: "other"; readonly why: string };

/** A greeting with every extension there is needs a few KiB. */
export const HELLO_LIMIT_BYTES: number = 32 * 1024;

const HANDSHAKE_RECORD = 22;
const CLIENT_HELLO = 1;
const SERVER_NAME = 0;
const RECORD_HEAD_BYTES = 5;
const MESSAGE_HEAD_BYTES = 4;

/** Reads a TLS ClientHello (RFC 8446, 4.1.2), which may lie in several records. */
export function readHello(bytes: Uint8Array): Hello {
  const given = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const message: Buffer[] = [];
  for (let at = 0; ; ) {
    if (at > HELLO_LIMIT_BYTES) return other("its TLS greeting is too long");
    if (at < given.length && given[at] !== HANDSHAKE_RECORD) return other("it is not TLS");
    if (at + RECORD_HEAD_BYTES > given.length) return { kind: "more" };
    if (given[at + 1] !== 3) return other("it is not TLS");
    const end = at + RECORD_HEAD_BYTES + given.readUInt16BE(at + 3);
    if (end > given.length) return end > HELLO_LIMIT_BYTES ? other("it is not TLS") : MORE;
    message.push(given.subarray(at + RECORD_HEAD_BYTES, end));
    const hello = readMessage(Buffer.concat(message));
    if (hello.kind !== "more") return hello;
    at = end;
  }
}

const MORE: Hello = { kind: "more" };

function other(why: string): Hello {
  return { kind: "other", why };
}

function readMessage(bytes: Buffer): Hello {
  if (bytes.length < MESSAGE_HEAD_BYTES) return MORE;
  if (bytes[0] !== CLIENT_HELLO) return other("it does not begin with a TLS greeting");
  const length = bytes.readUIntBE(1, 3);
  if (length > HELLO_LIMIT_BYTES) return other("its TLS greeting is too long");
  const body = bytes.subarray(MESSAGE_HEAD_BYTES, MESSAGE_HEAD_BYTES + length);
  if (body.length < length) return MORE;
  try {
    return { kind: "hello", name: nameIn(body) };
  } catch (error) {
    if (error instanceof RangeError) return other("its TLS greeting is garbled");
    throw error;
  }
}

/** Reads fields that say how long they are; a `RangeError` where they lie. */
class Cursor {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.#at >= this.#bytes.length;
  }

  number(size: number): number {
    return this.take(size).readUIntBE(0, size);
  }

  take(size: number): Buffer {
    const end = this.#at + size;
    if (end > this.#bytes.length) throw new RangeError("a field ends outside");
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }

  field(lengthSize: number): Buffer {
    return this.take(this.number(lengthSize));
  }
}

function nameIn(body: Buffer): string | null {
  const hello = new Cursor(body);
  // Version and random; then the session, the ciphers, the compressions.
  hello.take(2 + 32);
  hello.field(1);
  hello.field(2);
  hello.field(1);
  if (hello.done) return null;
  const extensions = new Cursor(hello.field(2));
  let name: string | null = null;
  while (!extensions.done) {
    const kind = extensions.number(2);
    const content = extensions.field(2);
    if (kind !== SERVER_NAME) continue;
    if (name !== null) throw new RangeError("two servers are named");
    const names = new Cursor(new Cursor(content).field(2));
    if (names.number(1) !== 0) throw new RangeError("a server of no known kind");
    name = names.field(2).toString("latin1");
    if (!names.done) throw new RangeError("two servers are named");
  }
  return name;
}
