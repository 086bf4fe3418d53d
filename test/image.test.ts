import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Script } from "@dev/model/scripted";
import { expect, test } from "vitest";
import { type Desk, openDesk, threadOf } from "./support/dev.ts";

/** One black pixel. */
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const SEES = '[models."scripted/test"]\nimages = true\n';

/** Runs a check on a desk whose project has an image, and whose settings end as given. */
async function onDesk(
  script: Script,
  settings: string,
  check: (desk: Desk) => Promise<void>,
): Promise<void> {
  const desk = await openDesk(script, { "a.txt": "hello\n" });
  try {
    writeFileSync(join(desk.project, "a.png"), Buffer.from(PNG, "base64"));
    appendFileSync(join(desk.home, "config.toml"), settings);
    await check(desk);
    expect(desk.model.errors).toEqual([]);
  } finally {
    await desk.close();
  }
}

async function sessionCount(desk: Desk): Promise<number> {
  return (await desk.run(["sessions", "--json"])).lines.length;
}

test("an image goes to the model with its prompt, and is there after a resume", () =>
  onDesk([{ reply: { text: "black" } }, { reply: { text: "two" } }], SEES, async (desk) => {
    const ran = await desk.run(["exec", "--json", "--image", "a.png", "which colour?"]);
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    const url = `data:image/png;base64,${PNG}`;
    const image = { type: "image_url", image_url: { url } };
    const first = JSON.parse(desk.model.requests[0]?.body ?? "");
    expect(first.messages.at(-1).content).toEqual([{ type: "text", text: "which colour?" }, image]);

    const again = ["resume", threadOf(ran), "how many?", "--image", "a.png", "--image", "./a.png"];
    expect(await desk.run(again)).toMatchObject({ code: 0, stdout: "two\n" });
    const second = JSON.parse(desk.model.requests[1]?.body ?? "");
    expect(second.messages[1]).toEqual(first.messages[1]);
    expect(second.messages.at(-1).content).toEqual([
      { type: "text", text: "how many?" },
      image,
      image,
    ]);
  }));

test("a model that takes no images is not asked, no session is made, and the setting is named", () =>
  onDesk([], "", async (desk) => {
    const ran = await desk.run(["exec", "--image", "a.png", "which colour?"]);
    expect(ran).toMatchObject({ code: 2, stdout: "" });
    expect(ran.stderr).toContain("scripted/test: the model is not known to take images");
    expect(ran.stderr).toContain('set images = true under [models."scripted/test"] in ');
    expect(ran.stderr).toContain(join(desk.home, "config.toml"));
    expect(desk.model.requests).toEqual([]);
    expect(await sessionCount(desk)).toBe(0);
  }));

test("a session keeps what its model took when it began", () =>
  onDesk([{ reply: { text: "ok" } }], "", async (desk) => {
    const ran = await desk.run(["exec", "--json", "hello"]);
    appendFileSync(join(desk.home, "config.toml"), SEES);
    const again = await desk.run(["resume", threadOf(ran), "look", "--image", "a.png"]);
    expect(again.code).toBe(2);
    expect(again.stderr).toContain("begin a session with a model that does");
    expect(desk.model.requests).toHaveLength(1);
  }));

test("what is no image is refused before a session is made, with --json as an error", () =>
  onDesk([], SEES, async (desk) => {
    mkdirSync(join(desk.project, "dir.png"));
    for (const [path, said] of [
      ["none.png", "there is no such image"],
      ["a.txt", "it is not an image: a PNG, JPEG, GIF or WebP"],
      ["dir.png", "it is not a regular file"],
    ] as const) {
      const ran = await desk.run(["exec", "--json", "look", "--image", path]);
      expect(ran.code).toBe(2);
      expect(ran.lines).toMatchObject([{ type: "error", code: "usage", message: said }]);
    }
    expect(await sessionCount(desk)).toBe(0);
  }));
