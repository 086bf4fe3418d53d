import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readImages } from "../src/image.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "image-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** Writes a file of these bytes, one character each. */
function file(name: string, bytes: string): string {
  const path = join(root, name);
  writeFileSync(path, Buffer.from(bytes, "latin1"));
  return path;
}

const PNG = "\x89PNG\r\n\x1a\nrest";

test.each([
  ["image/png", PNG],
  ["image/jpeg", "\xff\xd8\xff\xe0rest"],
  ["image/gif", "GIF89a..."],
  ["image/webp", "RIFF\x0a\n\x00\x00WEBPVP8 "],
])("a file that begins as %s is one, whatever its name", (mediaType, bytes) => {
  const data = Buffer.from(bytes, "latin1").toString("base64");
  expect(readImages([file("picture.txt", bytes)])).toEqual({
    ok: true,
    value: [{ mediaType, data }],
  });
});

test("images are read in their order", () => {
  const read = readImages([file("a", "GIF87a"), file("b", PNG)]);
  expect(read.ok && read.value.map(({ mediaType }) => mediaType)).toEqual([
    "image/gif",
    "image/png",
  ]);
});

test.each([
  ["no file", () => join(root, "none.png"), "there is no such image"],
  ["a path through a file", () => join(file("a", PNG), "b"), "there is no such image"],
  ["a directory", () => root, "not a regular file"],
  ["a device without end", () => "/dev/zero", "not a regular file"],
  ["an empty file", () => file("a.png", ""), "it is not an image"],
  ["a text", () => file("a.png", "PNG, honestly"), "it is not an image"],
  ["a sound in RIFF", () => file("a.webp", "RIFF\x00\x00\x00\x00WAVEfmt "), "it is not an image"],
  [
    "one of 2,750,001 bytes",
    () => {
      const path = file("a.png", PNG);
      truncateSync(path, 2_750_001);
      return path;
    },
    "the image has 2,750,001 bytes; those of one prompt may have 2,750,000 bytes together",
  ],
])("%s is refused, and which it was", (_, make, said) => {
  const path = make();
  const read = readImages([path]);
  expect(read.ok).toBe(false);
  if (read.ok) return;
  expect(read.fault).toMatchObject({ code: "usage", subject: path });
  expect(read.fault.message).toContain(said);
});

test("a pipe that nobody writes to is not waited for", () => {
  const path = join(root, "pipe.png");
  execFileSync("mkfifo", [path]);
  expect(readImages([path]).ok).toBe(false);
});

test("images are limited together, and in number", () => {
  const path = file("a.png", PNG);
  truncateSync(path, 1_400_000);
  expect(readImages([path]).ok).toBe(true);
  expect(readImages([path, path]).ok).toBe(false);
  const small = file("b.png", PNG);
  expect(readImages(Array.from({ length: 20 }, () => small)).ok).toBe(true);
  const many = readImages(Array.from({ length: 21 }, () => small));
  expect(!many.ok && many.fault.message).toContain("it takes 20");
});
