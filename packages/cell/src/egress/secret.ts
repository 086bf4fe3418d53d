import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import type { SecretRule } from "./rule.ts";

/** A secret as one request needs it: the header that carries it, and what must not come back. */
export type Credential = {
  readonly header: string;
  readonly value: string;
  /** The secret in every way of writing it that an origin can be expected to say it again in. */
  readonly needles: readonly Buffer[];
};

/** Of a secret. */
export const SECRET_LIMIT_BYTES: number = 8 * 1024;
/** A shorter one would be found everywhere in what an origin says, and blotted out. */
const SECRET_LEAST_BYTES = 8;

/**
 * Reads a secret where its rule says, anew for each request: it may be renewed meanwhile. A fault
 * (`config`) names the place, and nothing of what stands there.
 */
export async function readCredential(
  { from, as }: SecretRule,
  variable: (name: string) => string | undefined,
): Promise<Result<Credential>> {
  const read = from.kind === "variable" ? ok(variable(from.name) ?? "") : await textOf(from.path);
  if (!read.ok) return read;
  const secret = read.value.trim();
  const place = from.kind === "variable" ? `the variable ${from.name}` : from.path;
  if (secret === "") return fail(unusable("there is no secret there", place));
  if (!/^[\x21-\x7e]+$/.test(secret)) {
    return fail(unusable("a secret has no spaces, and is printable ASCII", place));
  }
  if (secret.length < SECRET_LEAST_BYTES || secret.length > SECRET_LIMIT_BYTES) {
    const range = `${SECRET_LEAST_BYTES} to ${SECRET_LIMIT_BYTES}`;
    return fail(unusable(`a secret has ${range} characters`, place));
  }
  switch (as.kind) {
    case "bearer":
      return ok(credential("authorization", `Bearer ${secret}`, [secret]));
    case "basic": {
      const pair = Buffer.from(`${as.user}:${secret}`).toString("base64");
      const said = [secret, pair.replace(/=+$/, "")];
      return ok(credential("authorization", `Basic ${pair}`, said));
    }
    case "header":
      return ok(credential(as.name.toLowerCase(), secret, [secret]));
  }
}

function unusable(message: string, place: string): Fault {
  return fault("config", message, place, "mend what `secret` of the rule names");
}

function credential(header: string, value: string, said: readonly string[]): Credential {
  const forms = new Set<string>();
  for (const text of said) {
    const bytes = Buffer.from(text);
    forms.add(text);
    forms.add(encodeURIComponent(text));
    forms.add(JSON.stringify(text).slice(1, -1));
    // What the last character is depends on what follows.
    const fixed = Math.floor((bytes.length * 4) / 3);
    forms.add(bytes.toString("base64").slice(0, fixed));
    forms.add(bytes.toString("base64url").slice(0, fixed));
    forms.add(bytes.toString("hex"));
    forms.add(bytes.toString("hex").toUpperCase());
  }
  return { header, value, needles: [...forms].map((form) => Buffer.from(form)) };
}

async function textOf(path: string): Promise<Result<string>> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const bytes = Buffer.alloc(SECRET_LIMIT_BYTES + 1);
      const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
      return ok(bytes.toString("utf8", 0, bytesRead));
    } finally {
      await file.close();
    }
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : null;
    if (code === null) throw error;
    return fail(unusable(`it cannot be read: ${code}`, path));
  }
}
