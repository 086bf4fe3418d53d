import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import {
  atEnd,
  driverHere,
  linkOf,
  newId,
  noRuntime,
  optionsIn,
  ran,
  specIn,
  temporary,
} from "./machine.ts";

/** The programs of an image that is as small as one can be: and all that they load. */
const PROGRAMS = ["/bin/sh", "/bin/ls", "/bin/cat", "/usr/bin/id", "/usr/bin/mkfifo"];

/** Makes an image from this machine's own files, as there is no registry to have one from. */
function importImage(): string {
  const base = temporary();
  const root = join(base, "root");
  for (const name of ["bin", "etc", "tmp", "usr/bin"])
    mkdirSync(join(root, name), { recursive: true });
  for (const program of [...PROGRAMS, process.execPath]) {
    const told = execFileSync("ldd", [realpathSync(program)], { encoding: "utf8" });
    const libraries = [...told.matchAll(/(\/\S+) \(0x/g)].map((match) => match[1] ?? "");
    const needed = program === process.execPath ? libraries : [program, ...libraries];
    for (const path of needed) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      cpSync(realpathSync(path), join(root, path));
    }
  }
  writeFileSync(join(root, "etc", "of-the-image"), "here\n");
  symlinkSync("of-the-image", join(root, "etc", "link"));
  const tar = join(base, "image.tar");
  execFileSync("tar", ["-C", root, "-cf", tar, "."]);
  const name = `localhost/dev-test-${newId()}`;
  atEnd(() => spawnSync("podman", ["rmi", "--force", name]));
  execFileSync("podman", ["import", "--quiet", tar, name], { stdio: "pipe" });
  return name;
}

test("a container of an image has the image's system, and the cell's own workspace", async (context) => {
  const missing = noRuntime("podman");
  context.skip(missing !== undefined, `${missing}`);
  const image = importImage();
  const base = temporary();
  const { vendor } = driverHere("container", optionsIn(base, { container: { image } }));
  const id = newId();
  const link = await linkOf((progress) => vendor.create(id, specIn(base), progress));
  expect(link.boundary).toBe("cell");
  expect(await ran(link, "sh", "-c", "cat /etc/link; echo made > made; cat made")).toMatchObject({
    code: 0,
    stdout: "here\nmade\n",
  });
  expect((await ran(link, "ls", "/usr/bin")).stdout).toBe("id\nmkfifo\n");
  expect((await ran(link, "sh", "-c", ": > /etc/mine")).code).not.toBe(0);
  expect(await vendor.delete(id)).toEqual({ ok: true, value: { kind: "gone" } });
}, 120_000);

test("an image that is not there is a fault with the engine's words", async (context) => {
  const missing = noRuntime("podman");
  context.skip(missing !== undefined, `${missing}`);
  const base = temporary();
  const image = "localhost/dev-test-of-nobody";
  const args = ["--pull", "never"];
  const { vendor } = driverHere("container", optionsIn(base, { container: { image, args } }));
  const id = newId();
  const failed = linkOf((progress) => vendor.create(id, specIn(base), progress));
  await expect(failed).rejects.toThrow(/dev-test-of-nobody/);
  expect(await vendor.delete(id)).toEqual({ ok: true, value: { kind: "gone" } });
});
