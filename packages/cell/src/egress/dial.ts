import { connect, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { fail, ok, type Result } from "@dev/protocol";
import { judgeAddress } from "./address.ts";
import type { Ground } from "./ground.ts";
import type { Target } from "./host.ts";
import { failure, type Refusal, refusal } from "./record.ts";
import type { Allowance } from "./rule.ts";

/** Of a name's addresses, how many are tried. */
const ADDRESS_LIMIT = 4;

/**
 * Connects to a target. Its name is resolved once, and the connection goes to an address that was
 * judged: a second answer of the resolver has no say. A name whose every address is refused is refused.
 */
export async function dial(
  { seams }: Ground,
  { host, port }: Target,
  { named }: Allowance,
  signal: AbortSignal,
): Promise<Result<Socket, Refusal>> {
  const late = AbortSignal.any([signal, AbortSignal.timeout(seams.limits.connectMs)]);
  const found =
    host.kind === "address" ? [host.name] : await settled(seams.resolve(host.name), late);
  if (found === null) return fail(failure(`there is no address for ${host.name}`));
  const judged = found.map((address) => judgeAddress(address, named));
  const allowed = judged.filter((each) => each.kind === "allowed").slice(0, ADDRESS_LIMIT);
  const [denied] = judged.filter((each) => each.kind === "refused");
  if (allowed.length === 0) {
    if (denied === undefined) return fail(failure(`there is no address for ${host.name}`));
    const what = host.name === denied.address ? host.name : `${host.name} is ${denied.address}`;
    return fail(refusal(403, `${what}: ${denied.why}, which the rule does not name`));
  }
  let words = "";
  for (const { address, family } of allowed) {
    const socket = connect({ host: address, port, family, allowHalfOpen: true, noDelay: true });
    const error = await connected(socket, "connect", late);
    if (error === null) return ok(socket);
    words = error;
  }
  return fail(failure(`${host.name} cannot be reached: ${words}`));
}

/** Agrees on TLS with an origin, which must prove to be the host that was asked for. */
export async function secure(
  { trust, seams }: Ground,
  socket: Socket,
  { host }: Target,
  signal: AbortSignal,
): Promise<Result<TLSSocket, Refusal>> {
  const secured = connectTls({
    socket,
    secureContext: trust,
    ALPNProtocols: ["http/1.1"],
    ...(host.kind === "name" ? { servername: host.name } : { host: host.name, servername: "" }),
  });
  const late = AbortSignal.any([signal, AbortSignal.timeout(seams.limits.connectMs)]);
  const error = await connected(secured, "secureConnect", late);
  if (error === null) return ok(secured);
  socket.destroy();
  return fail(failure(`${host.name} does not prove to be it: ${error}`));
}

async function settled(
  work: Promise<readonly string[]>,
  signal: AbortSignal,
): Promise<readonly string[] | null> {
  const over = new AbortController();
  const given = new Promise<null>((resolve) => {
    if (signal.aborted) resolve(null);
    const until = { once: true, signal: over.signal };
    signal.addEventListener("abort", () => resolve(null), until);
  });
  // Whatever a resolver says instead of addresses, there are none.
  const found = await Promise.race([work.catch(() => null), given]);
  over.abort();
  return found;
}

/** Waits for a socket's event; the answer is what came instead, null when it came. */
function connected(socket: Socket, event: string, signal: AbortSignal): Promise<string | null> {
  return new Promise((resolve) => {
    const end = (words: string | null): void => {
      signal.removeEventListener("abort", abort);
      socket.removeListener(event, done);
      socket.removeListener("error", broken);
      socket.removeListener("close", closed);
      // It may break before whoever has asked for it listens.
      socket.on("error", () => undefined);
      if (words !== null) socket.destroy();
      resolve(words);
    };
    const abort = (): void => end("it took too long");
    const done = (): void => end(null);
    const broken = (error: Error): void => end(wordsOf(error));
    const closed = (): void => end("it was closed");
    signal.addEventListener("abort", abort);
    socket.once(event, done);
    socket.once("error", broken);
    socket.once("close", closed);
    if (signal.aborted) abort();
  });
}

function wordsOf(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : error.message;
}
