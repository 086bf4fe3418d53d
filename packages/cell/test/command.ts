import { spawn } from "node:child_process";
import { connect, createServer } from "node:net";
import { Duplex } from "node:stream";
import { actionId, ok } from "@dev/protocol";
import { onTestFinished } from "vitest";
import { openCellNetwork } from "../src/agent/egress.ts";
import { scratch } from "./cell.ts";
import { listening, type Network } from "./network.ts";

/** What a program did, with all that it and the way to the proxy ever said. */
export type Done = { readonly code: number; readonly output: string };

/** Runs programs as a cell's commands are run: with its variables, and through its proxy. */
export type CommandPlace = {
  readonly directory: string;
  /** All bytes that went through the way to the proxy, both ways. */
  readonly crossed: () => string;
  readonly variables: Readonly<Record<string, string>>;
  run(argv: readonly string[], more?: Readonly<Record<string, string>>): Promise<Done>;
};

export async function commandPlace(net: Network): Promise<CommandPlace> {
  const directory = await scratch();
  const chunks: Buffer[] = [];
  // The stream between the cell and the host is a socket of its own here, so that it can be heard.
  const wire = await listening(
    createServer({ allowHalfOpen: true }, (socket) => net.egress.serve(socket)),
  );
  const opened = await openCellNetwork({
    directory,
    certificates: net.egress.certificates,
    open: async () => ok(heard(wire, chunks)),
  });
  if (!opened.ok) throw new Error(opened.fault.message);
  onTestFinished(() => opened.value.close());
  const variables = opened.value.variables(actionId(7));
  const base = { PATH: process.env.PATH ?? "", HOME: directory, LANG: "C.UTF-8" };
  return {
    directory,
    variables,
    crossed: () => Buffer.concat(chunks).toString("latin1"),
    run: (argv, more = {}) =>
      new Promise((resolve, reject) => {
        const [program = "", ...rest] = argv;
        const env = { ...base, ...variables, ...more };
        const child = spawn(program, rest, {
          cwd: directory,
          env,
          stdio: ["ignore", "pipe", "pipe"],
        });
        let output = "";
        for (const stream of [child.stdout, child.stderr]) {
          stream.on("data", (chunk) => {
            output += chunk.toString("latin1");
          });
        }
        child.once("error", reject);
        child.once("close", (code) => resolve({ code: code ?? -1, output }));
      }),
  };
}

function heard(port: number, chunks: Buffer[]): Duplex {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const stream = new Duplex({
    allowHalfOpen: true,
    read: () => socket.resume(),
    write: (chunk: Buffer, _, done) => {
      chunks.push(chunk);
      socket.write(chunk, done);
    },
    final: (done) => {
      socket.end();
      done();
    },
    destroy: (error, done) => {
      socket.destroy();
      done(error);
    },
  });
  socket.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    if (!stream.push(chunk)) socket.pause();
  });
  socket.on("end", () => stream.push(null));
  socket.on("error", () => stream.destroy());
  return stream;
}
