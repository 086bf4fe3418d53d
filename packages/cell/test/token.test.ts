import { randomBytes } from "node:crypto";
import { cellId, fail, fault, ok } from "@dev/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { mintToken, readToken, TOKEN_LIMIT_BYTES, type TokenClaims } from "../src/token.ts";

const secret = randomBytes(32);
const secretOf = async (account: string) => ok(account === "nobody" ? undefined : secret);
const cell = cellId(1_700_000_000_000, new Uint8Array(10));
const claims: TokenClaims = { kind: "cell", account: "acme", cell, generation: 3, untilMs: 2_000 };

test("a token says what it was made with, until it expires", async () => {
  const token = mintToken(claims, secret);
  expect(await readToken(token, secretOf, 1_999)).toEqual({ ok: true, value: claims });
  expect(await readToken(token, secretOf, 2_000)).toMatchObject({
    fault: { code: "unauthorized", message: "the token has expired at 1970-01-01T00:00:02.000Z" },
  });
  const vendor: TokenClaims = { kind: "vendor", account: "a.b|c\n", untilMs: 2_000 };
  expect(await readToken(mintToken(vendor, secret), secretOf, 0)).toEqual({
    ok: true,
    value: vendor,
  });
});

test("a token of another secret, or of an account that is not there, is refused alike", async () => {
  const wrong = { fault: { code: "unauthorized", message: "the token's signature is not right" } };
  expect(await readToken(mintToken(claims, randomBytes(32)), secretOf, 0)).toMatchObject(wrong);
  const nobody = { ...claims, account: "nobody" };
  // Made with what stands in for the secret of an account that is not there.
  expect(await readToken(mintToken(nobody, new Uint8Array(32)), secretOf, 0)).toMatchObject(wrong);
  expect(await readToken(mintToken(nobody, secret), secretOf, 0)).toMatchObject(wrong);
});

test("a token that was changed in any way is refused", async () => {
  const token = mintToken(claims, secret);
  const changes = fc.tuple(fc.nat(token.length - 1), fc.constantFrom(..."AZaz09-_.="));
  await fc.assert(
    fc.asyncProperty(changes, async ([at, letter]) => {
      fc.pre(token[at] !== letter);
      const changed = token.slice(0, at) + letter + token.slice(at + 1);
      expect((await readToken(changed, secretOf, 0)).ok).toBe(false);
    }),
  );
});

test("an account that cannot be looked up now is no verdict on its token", async () => {
  const away = fault("unavailable", "the store is away");
  const read = await readToken(mintToken(claims, secret), async () => fail(away), 0);
  expect(read).toEqual({ ok: false, fault: away });
});

test("what is no token is refused, however long", async () => {
  const texts = fc.oneof(fc.string(), fc.constant("x".repeat(TOKEN_LIMIT_BYTES + 1)));
  await fc.assert(
    fc.asyncProperty(texts, async (text) => {
      expect((await readToken(text, secretOf, 0)).ok).toBe(false);
      expect((await readToken(`dev1.${text}.${text}`, secretOf, 0)).ok).toBe(false);
    }),
  );
});
