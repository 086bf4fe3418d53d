import { closeSync, constants, openSync } from "node:fs";
import { rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import { makeDirectory } from "./directory.ts";
import { errnoOf, systemFault } from "./errno.ts";

/** How often one may be told that the agent of before is still ending. */
const WAITING_MS = 5_000;
/** Times that a socket may be in use and refuse: after that something else is wrong. */
const TRY_LIMIT = 100;

/**
 * Holds a spool's directory against every other agent, until this process ends, however it ends: the
 * system itself lets go of it then. A link that is lost leaves an agent behind that lets its
 * commands end: the next one waits for it here, so that both never write one log, and finds the
 * outcomes there. `onWaiting` is called now and then meanwhile. Faults: `io`, `link_lost` (aborted).
 */
export async function holdSpool(
  directory: string,
  onWaiting: () => void,
  signal: AbortSignal,
): Promise<Result<void>> {
  try {
    await makeDirectory(directory);
    const address = openAddress(directory);
    for (let count = 0; count < TRY_LIMIT && !signal.aborted; count++) {
      if (await listen(address.path)) return ok(undefined);
      const holder = await waitForHolder(address.path, onWaiting, signal);
      // The holder was killed: its socket is left, and nobody will answer on it.
      if (holder === "dead") await rm(address.path, { force: true });
    }
    address.close();
    return fail(givenUp(directory, signal));
  } catch (error) {
    return fail(systemFault(error, directory));
  }
}

type Address = { readonly path: string; readonly close: () => void };

/** A socket's path has 107 bytes at most: by its descriptor a directory of any name is short. */
function openAddress(directory: string): Address {
  if (process.platform !== "linux") return { path: join(directory, SOCKET), close: () => {} };
  const descriptor = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  return { path: `/proc/self/fd/${descriptor}/${SOCKET}`, close: () => closeSync(descriptor) };
}

const SOCKET = "agent.sock";

/** False when the socket is there already. */
function listen(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    // Whoever connects waits for the end of this process, and is told nothing.
    const server = createServer((socket) => socket.on("error", () => {}).resume());
    server.once("listening", () => resolve(true));
    server.once("error", (error) => {
      if (errnoOf(error) === "EADDRINUSE") resolve(false);
      else reject(error);
    });
    server.listen(path);
    // Listening keeps it for as long as the process lives, and does not keep the process.
    server.unref();
  });
}

function waitForHolder(
  path: string,
  onWaiting: () => void,
  signal: AbortSignal,
): Promise<"ended" | "dead"> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const timer = setInterval(onWaiting, WAITING_MS);
    let isDead = false;
    const stop = () => socket.destroy();
    signal.addEventListener("abort", stop, { once: true });
    socket.once("connect", onWaiting);
    socket.on("error", (error) => {
      isDead = errnoOf(error) === "ECONNREFUSED";
    });
    socket.resume();
    socket.once("close", () => {
      clearInterval(timer);
      signal.removeEventListener("abort", stop);
      resolve(isDead ? "dead" : "ended");
    });
  });
}

function givenUp(directory: string, signal: AbortSignal): Fault {
  if (signal.aborted) return fault("link_lost", "the link ended while the spool was waited for");
  return fault("io", "the spool is held, and its holder does not answer", directory);
}
