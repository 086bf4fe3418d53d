import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { PTY_LIMIT, Ptys } from "../src/agent/pty.ts";
import { Tree } from "../src/agent/tree.ts";
import { Channels, type OpenChannel } from "../src/channel.ts";
import {
  openPty,
  PTY_MESSAGE_LIMIT_BYTES,
  type Pty,
  type PtyOpening,
  PtyReader,
  ptyMessages,
} from "../src/pty.ts";
import { IDLE, ptyAddon, realClock, scratch } from "./cell.ts";

type Room = { readonly root: string; readonly open: (rest?: Partial<PtyOpening>) => Promise<Pty> };

let rooms = 0;

/** Terminals of this process, without a link in between. */
async function room(): Promise<Room> {
  const root = join(await scratch(), "workspace");
  await mkdir(root);
  const ptys = new Ptys({
    addon: ptyAddon,
    tree: new Tree(root),
    base: { PATH: process.env.PATH ?? "", SHELL: "/bin/sh" },
    identity: `pty-test-${process.pid}-${rooms++}`,
    clock: realClock,
  });
  return {
    root,
    open: async (rest = {}) => {
      const opening = { argv: [], cwd: ".", columns: 80, rows: 24, variables: [], ...rest };
      const pty = await openPty(hostOf(ptys), opening, IDLE);
      if (!pty.ok) throw new Error(pty.fault.message);
      return pty.value;
    },
  };
}

/** Channels of a link without the link. */
function hostOf(ptys: Ptys): OpenChannel {
  const ends: { host: Channels; agent: Channels } = {
    host: new Channels(
      {
        send: (channel, message) => setImmediate(() => ends.agent.take(channel, message)),
        waitingBytes: () => 0,
        serve: () => undefined,
      },
      "host",
    ),
    agent: new Channels(
      {
        send: (channel, message) => setImmediate(() => ends.host.take(channel, message)),
        waitingBytes: () => 0,
        serve: () => (payload, stream) => ptys.serve(payload, stream),
      },
      "agent",
    ),
  };
  return (kind, payload, signal) => ends.host.open(kind, payload, signal);
}

/** What a terminal has shown so far. */
function shown(pty: Pty): () => string {
  let text = "";
  pty.onData((bytes) => {
    text += Buffer.from(bytes).toString();
  });
  return () => text;
}

const until = (isTrue: () => boolean) => vi.waitUntil(isTrue, { timeout: 20_000, interval: 10 });

test("a program on a terminal sees a terminal of the size that was asked for, and says how it ended", async () => {
  const { open } = await room();
  const pty = await open({
    argv: ["sh", "-c", "test -t 0 && stty size; exit 7"],
    columns: 101,
    rows: 33,
  });
  const text = shown(pty);
  expect(await pty.ended).toEqual({ ok: true, value: { code: 7, signal: 0 } });
  expect(text()).toContain("33 101");
});

test("what is typed arrives, and a new size is told to the program", async () => {
  const { open } = await room();
  const pty = await open({
    argv: [
      "sh",
      "-c",
      "trap 'stty size' WINCH; echo up; while :; do read line || continue; test \"$line\" = quit && exit 0; echo got $line; done",
    ],
  });
  const text = shown(pty);
  await until(() => text().includes("up"));
  pty.resize(120, 40);
  await until(() => {
    pty.write(Buffer.from("\r"));
    return text().includes("40 120");
  });
  pty.write(Buffer.from("hello\r"));
  await until(() => text().includes("got hello"));
  pty.write(Buffer.from("quit\r"));
  expect(await pty.ended).toMatchObject({ ok: true, value: { code: 0 } });
});

test("Ctrl-C is a signal to what runs, and to nothing else", async () => {
  const { open } = await room();
  const pty = await open({ argv: ["sh"] });
  const text = shown(pty);
  pty.write(Buffer.from("sleep 600\r"));
  await until(() => text().includes("sleep"));
  await until(() => {
    pty.write(Buffer.from("\x03"));
    pty.write(Buffer.from("echo still $((40 + 2))\r"));
    return text().includes("still 42");
  });
  pty.write(Buffer.from("exit 3\r"));
  expect(await pty.ended).toMatchObject({ value: { code: 3 } });
});

test("hanging up ends what runs on it, also what ignores it and what left its session", async () => {
  const { open, root } = await room();
  const pty = await open({
    argv: [
      "sh",
      "-c",
      "trap '' HUP; setsid sh -c 'echo $$ > daemon; exec sleep 600' & echo $$ > shell; while :; do sleep 1; done",
    ],
  });
  await until(() => existsSync(join(root, "daemon")) && existsSync(join(root, "shell")));
  const { readFileSync } = await import("node:fs");
  const pids = ["daemon", "shell"].map((name) => readFileSync(join(root, name), "utf8").trim());
  pty.close();
  expect(await pty.ended).toMatchObject({ ok: false, fault: { code: "link_lost" } });
  const isGone = (pid: string): boolean => {
    try {
      return / Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
    } catch {
      return true;
    }
  };
  await until(() => pids.every(isGone));
});

test("a program that is not there ends with what a shell would say, and a bad directory is refused", async () => {
  const { open, root } = await room();
  expect((await (await open({ argv: ["/no/such/program"] })).ended).ok).toBe(true);
  await writeFile(join(root, "file"), "");
  expect(await (await open({ cwd: "file" })).ended).toMatchObject({ ok: false });
  expect(await (await open({ cwd: "../.." })).ended).toMatchObject({ ok: false });
});

test("more terminals than a cell may have are refused by that limit's name", async () => {
  const { open } = await room();
  const ptys = await Promise.all(Array.from({ length: PTY_LIMIT }, () => open({ argv: ["cat"] })));
  const more = await (await open({ argv: ["cat"] })).ended;
  expect(more).toMatchObject({ fault: { message: expect.stringContaining("PTY_LIMIT") } });
  for (const pty of ptys) pty.close();
});

test("a reader that does not read stops the program, and loses nothing", async () => {
  const { open } = await room();
  const pty = await open({ argv: ["sh", "-c", "seq 1 200000"] });
  let last = "";
  pty.onData((bytes) => {
    last = (last + Buffer.from(bytes).toString()).slice(-40);
  });
  expect(await pty.ended).toMatchObject({ value: { code: 0 } });
  expect(last).toContain("200000");
});

test("messages are read wherever a stream is cut, and one that is too long is malformed", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat({ max: 2 }), fc.uint8Array({ maxLength: 50 }))),
      fc.infiniteStream(fc.integer({ min: 1, max: 9 })),
      (sent, cuts) => {
        const bytes = Buffer.concat(sent.flatMap(([tag, body]) => ptyMessages(tag, body)));
        const reader = new PtyReader();
        const read: [number, Uint8Array][] = [];
        for (let at = 0; at < bytes.length; ) {
          const size = cuts.next().value;
          const messages = reader.push(bytes.subarray(at, at + size));
          if (!messages.ok) throw new Error(messages.fault.message);
          for (const { tag, body } of messages.value) read.push([tag, Uint8Array.from(body)]);
          at += size;
        }
        expect(read).toEqual(sent);
      },
    ),
  );
  const head = Buffer.alloc(5);
  head.writeUInt32LE(PTY_MESSAGE_LIMIT_BYTES + 1, 1);
  expect(new PtyReader().push(head)).toMatchObject({ fault: { code: "malformed" } });
});
