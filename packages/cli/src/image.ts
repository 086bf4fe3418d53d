import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { fail, fault, type Image, ok, type Result } from "@dev/protocol";
import { countText } from "./figure.ts";

/** Images of one prompt. */
export const IMAGE_COUNT_LIMIT = 20;
/** The images of one prompt together: in base64, with the prompt, they must fit a message of the core. */
export const IMAGES_LIMIT_BYTES = 2_750_000;

/**
 * Reads the images of a prompt; what a file is, its first bytes say. Faults: `usage`, naming the file:
 * it is not there, cannot be read, is no PNG, JPEG, GIF or WebP, or the images are too many or too large.
 */
export function readImages(paths: readonly string[]): Result<readonly Image[]> {
  if (paths.length > IMAGE_COUNT_LIMIT) {
    const message = `${paths.length} images are too many for a prompt: it takes ${IMAGE_COUNT_LIMIT}`;
    return fail(fault("usage", message, "", "give fewer"));
  }
  const images: Image[] = [];
  let sizeBytes = 0;
  for (const path of paths) {
    const read = readImage(path, IMAGES_LIMIT_BYTES - sizeBytes);
    if (!read.ok) return read;
    sizeBytes += read.value.length;
    const mediaType = mediaTypeOf(read.value);
    if (mediaType === null) {
      return fail(fault("usage", "it is not an image: a PNG, JPEG, GIF or WebP", path));
    }
    images.push({ mediaType, data: read.value.toString("base64") });
  }
  return ok(images);
}

function readImage(path: string, leftBytes: number): Result<Buffer> {
  let descriptor: number | null = null;
  try {
    // A FIFO must not make us wait for a writer.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    const found = fstatSync(descriptor);
    // What is no regular file may have no end.
    if (!found.isFile()) return fail(fault("usage", "it is not a regular file", path));
    const { size } = found;
    if (size <= leftBytes) return ok(readFileSync(descriptor));
    const limit = countText(IMAGES_LIMIT_BYTES, "byte");
    const message = `the image has ${countText(size, "byte")}; those of one prompt may have ${limit} together`;
    return fail(fault("usage", message, path, "make it smaller, or give fewer"));
  } catch (error) {
    if (!(error instanceof Error && "code" in error)) throw error;
    const message = KNOWN_ERRORS.get(error.code) ?? `it cannot be read: ${error.message}`;
    return fail(fault("usage", message, path));
  } finally {
    if (descriptor !== null) closeSync(descriptor);
  }
}

const KNOWN_ERRORS: ReadonlyMap<unknown, string> = new Map([
  ["ENOENT", "there is no such image"],
  ["ENOTDIR", "there is no such image"],
  ["EACCES", "the image may not be read"],
]);

/** How the files of each type begin, in hex. */
const BEGINNINGS: readonly (readonly [string, RegExp])[] = [
  ["image/png", /^89504e470d0a1a0a/],
  ["image/jpeg", /^ffd8ff/],
  ["image/gif", /^47494638(?:37|39)61/],
  ["image/webp", /^52494646.{8}57454250/],
];

function mediaTypeOf(bytes: Buffer): string | null {
  const head = bytes.toString("hex", 0, 12);
  return BEGINNINGS.find(([, begins]) => begins.test(head))?.[0] ?? null;
}
