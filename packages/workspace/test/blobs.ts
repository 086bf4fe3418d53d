import { type Blobs, isBlobName, listAll } from "@dev/workspace";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { must } from "./tree.ts";

/** A place for blobs of one test; each `open` is another's view of it. */
export type Shelf = { readonly open: () => Blobs; readonly close: () => Promise<void> | void };

const bytes = (text: string): Uint8Array => Buffer.from(text);
const text = (content: Uint8Array): string => Buffer.from(content).toString();

/** What every kind of blobs promises. */
export function blobsContract(name: string, shelf: () => Promise<Shelf> | Shelf): void {
  describe(`blobs in ${name}`, () => {
    let here: Shelf;
    let blobs: Blobs;
    beforeEach(async () => {
      here = await shelf();
      blobs = here.open();
    });
    afterEach(() => here.close());

    test("what was put is got, whole or in part, by whoever looks", async () => {
      expect(must(await blobs.put("packs/a", bytes("0123456789")))).toBe("put");
      const other = here.open();
      expect(text(must(await other.get("packs/a", null)))).toBe("0123456789");
      expect(text(must(await other.get("packs/a", { offset: 3, length: 4 })))).toBe("3456");
      expect(text(must(await other.get("packs/a", { offset: 8, length: 9 })))).toBe("89");
      expect(text(must(await other.get("packs/a", { offset: 10, length: 1 })))).toBe("");
      expect(text(must(await other.get("packs/a", { offset: 2, length: 0 })))).toBe("");
      must(await blobs.put("empty", new Uint8Array()));
      expect(must(await blobs.get("empty", null))).toHaveLength(0);
    });

    test("what is there stays as it is", async () => {
      must(await blobs.put("a", bytes("first")));
      expect(must(await blobs.put("a", bytes("second")))).toBe("there");
      expect(text(must(await blobs.get("a", null)))).toBe("first");
    });

    test("of many that put one name at once exactly one does", async () => {
      const all = Array.from({ length: 12 }, (_, nth) => here.open().put("one", bytes(`${nth}`)));
      const answers = (await Promise.all(all)).map(must);
      expect(answers.filter((answer) => answer === "put")).toHaveLength(1);
      const won = answers.indexOf("put");
      expect(text(must(await blobs.get("one", null)))).toBe(`${won}`);
    });

    test("what is not there is missed, and deleting it is no fault", async () => {
      const got = await blobs.get("packs/none", null);
      expect(got).toMatchObject({ ok: false, fault: { code: "not_found" } });
      must(await blobs.delete("packs/none"));
      must(await blobs.put("a", bytes("a")));
      must(await blobs.delete("a"));
      expect((await blobs.get("a", null)).ok).toBe(false);
      expect(must(await blobs.put("a", bytes("b")))).toBe("put");
    });

    test("names are listed in order, by prefix, page after page", async () => {
      expect(must(await listAll(blobs, ""))).toEqual([]);
      const names = Array.from({ length: 30 }, (_, nth) => `index/${String(nth).padStart(2, "0")}`);
      for (const name of [...names, "packs/x", "indexes"]) must(await blobs.put(name, bytes(name)));
      expect(must(await listAll(blobs, "index/"))).toEqual(names);
      expect(must(await listAll(blobs, ""))).toEqual([...names, "indexes", "packs/x"]);
      expect(must(await listAll(blobs, "none/"))).toEqual([]);
      const page = must(await blobs.list("index/", "index/27"));
      expect(page).toEqual({ names: names.slice(28), next: null });
    });

    test("a megabyte of every byte comes back as it went", async () => {
      const content = Uint8Array.from({ length: 1_000_003 }, (_, at) => (at * 7) % 256);
      must(await blobs.put("big", content));
      expect(Buffer.from(must(await blobs.get("big", null))).equals(content)).toBe(true);
    });

    test("a name that leads elsewhere is a bug of whoever made it", async () => {
      for (const name of ["", "/a", "a/", "../a", "a/../b", ".a", "a//b", "A", "a b", "a\0"]) {
        expect(isBlobName(name)).toBe(false);
        await expect(blobs.get(name, null)).rejects.toThrow("not a blob's name");
        await expect(blobs.put(name, bytes(""))).rejects.toThrow("not a blob's name");
        await expect(blobs.delete(name)).rejects.toThrow("not a blob's name");
      }
    });
  });
}
