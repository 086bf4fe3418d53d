import fc from "fast-check";
import { expect, test } from "vitest";
import { isWithin, type Mount, mountArguments } from "../src/vendors/mount.ts";

const part = fc.constantFrom("a", "b", "c");
const path = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => `/${parts.join("/")}`);
const mount = fc
  .record({ at: path, write: fc.boolean() })
  .map(({ at, write }): Mount => ({ kind: "bind", source: "/x", at, write }));

/** Where each bind of the arguments goes, in their order. */
function places(args: readonly string[]): readonly string[] {
  return args.filter((_, index) => index % 3 === 2);
}

test("what lies below a mount is mounted after it, in whatever order they were listed", () => {
  fc.assert(
    fc.property(fc.array(mount, { maxLength: 12 }), (mounts) => {
      const order = places(mountArguments(mounts, 8).args);
      for (const [index, at] of order.entries()) {
        expect(order.slice(index + 1).filter((later) => isWithin(at, later))).toEqual([]);
      }
      expect([...order].sort()).toEqual([...new Set(mounts.map(({ at }) => at))].sort());
    }),
  );
});

test("of two mounts at one path the later is made", () => {
  const bind = (source: string): Mount => ({ kind: "bind", source, at: "/a", write: true });
  expect(mountArguments([bind("/first"), bind("/last")], 8).args).toEqual([
    "--bind",
    "/last",
    "/a",
  ]);
});

test("a hidden directory is closed only when what lies in it has been mounted", () => {
  const { args } = mountArguments(
    [
      { kind: "bind", source: "/x", at: "/a/b", write: true },
      { kind: "hidden", at: "/a" },
    ],
    8,
  );
  expect(args.indexOf("/a/b")).toBeLessThan(args.indexOf("--remount-ro"));
  expect(args.indexOf("--tmpfs")).toBeLessThan(args.indexOf("--bind"));
});

test("texts get their descriptors in the order of their arguments", () => {
  const { args, files } = mountArguments(
    [
      { kind: "text", at: "/a/deep", text: "second" },
      { kind: "text", at: "/b", text: "first" },
    ],
    8,
  );
  expect(args).toEqual(["--ro-bind-data", "8", "/b", "--ro-bind-data", "9", "/a/deep"]);
  expect(files.map((file) => Buffer.from(file).toString())).toEqual(["first", "second"]);
});
