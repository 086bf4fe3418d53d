import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { type CellId, ok, type Result } from "@dev/protocol";
import { onTestFinished } from "vitest";
import { mintToken, TOKEN_LIFE_MS, type TokenClaims } from "../src/token.ts";
import { type CellUpgrades, cellUpgrades, type UpgradeOptions } from "../src/upgrade.ts";
import { realClock, type TestCell } from "./cell.ts";

export const ACCOUNT = "acme";

/** A server of the tests: the listening half of links, on a port of this machine. */
export class TestServer {
  readonly secret: Uint8Array = randomBytes(32);
  readonly sockets = new Set<Duplex>();
  verdict: Awaited<ReturnType<UpgradeOptions["verdictOf"]>> = "welcome";
  upgrades: CellUpgrades;
  #server: Server | undefined;
  #port = 0;

  private constructor() {
    this.upgrades = this.#upgrades();
  }

  /** Stopped when the test ends or, for a whole file, by whoever starts it. */
  static async start(until: "test" | "file" = "test"): Promise<TestServer> {
    const server = new TestServer();
    if (until === "test") onTestFinished(() => server.stop());
    await server.listen();
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** On the port that it had before, if it had one. */
  async listen(): Promise<void> {
    this.upgrades = this.#upgrades();
    const server = createServer((_, response) => response.writeHead(404).end());
    server.on("upgrade", (request, socket, head) => {
      this.sockets.add(socket);
      if (!this.upgrades.handle(request, socket, head)) socket.destroy();
    });
    await this.#serve(server);
  }

  /** What stands before the server answers for it: with a page. */
  async answerWith(status: number, page: string): Promise<{ readonly count: () => number }> {
    let count = 0;
    const server = createServer();
    server.on("upgrade", (_, socket) => {
      count += 1;
      socket.on("error", () => undefined);
      socket.end(
        `HTTP/1.1 ${status} X\r\nContent-Type: text/html\r\nContent-Length: ${page.length}\r\nConnection: close\r\n\r\n${page}`,
      );
    });
    await this.#serve(server);
    return { count: () => count };
  }

  /** Nothing answers on the port. */
  async stop(): Promise<void> {
    this.upgrades.close();
    this.cut();
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }

  /** Every connection that there is breaks. */
  cut(): void {
    for (const socket of this.sockets) socket.destroy();
    this.sockets.clear();
  }

  /** Resolves when a vendor of that name has dialled in. */
  async connected(name: string): Promise<void> {
    while (this.upgrades.holder(ACCOUNT, name) === undefined) await realClock.sleep(5);
  }

  token(claims: Partial<TokenClaims> & Pick<TokenClaims, "kind">): string {
    const full = { account: ACCOUNT, untilMs: Date.now() + TOKEN_LIFE_MS, ...claims };
    return mintToken(full as TokenClaims, this.secret);
  }

  async #serve(server: Server): Promise<void> {
    this.#server = server;
    server.listen(this.#port, "127.0.0.1");
    await once(server, "listening");
    this.#port = (server.address() as AddressInfo).port;
  }

  #upgrades(): CellUpgrades {
    return cellUpgrades({
      secretOf: async (account) => ok(account === ACCOUNT ? this.secret : undefined),
      verdictOf: async () => this.verdict,
      clock: realClock,
    });
  }
}

export type FarAgent = {
  readonly pid: number;
  readonly said: () => string;
  readonly kill: () => void;
  /** Its exit status. */
  readonly exited: Promise<number | null>;
};

/** An agent that dials, as a vendor elsewhere would start it. */
export async function farAgent(
  bundle: string,
  server: TestServer,
  cell: TestCell,
  generation: number,
  token: string = server.token({ kind: "cell", cell: cell.id, generation }),
): Promise<FarAgent> {
  const file = join(cell.spool, "..", `token-${generation}-${randomBytes(4).toString("hex")}`);
  await writeFile(file, token, { mode: 0o600 });
  const child = spawn(process.execPath, [bundle, "connect", server.url], {
    stdio: ["ignore", "inherit", "pipe"],
    env: { PATH: process.env.PATH, DEV_CELL_TOKEN_FILE: file, DEV_CELL: cell.id },
  });
  let said = "";
  child.stderr.on("data", (chunk) => {
    said += String(chunk);
  });
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exited;
  });
  return { pid: child.pid ?? 0, said: () => said, kill: () => child.kill("SIGKILL"), exited };
}

/** The stream of a cell's next link. */
export async function dialledIn(server: TestServer, cell: CellId): Promise<Duplex> {
  const stream: Result<Duplex> = await server.upgrades.cell(
    ACCOUNT,
    cell,
    AbortSignal.timeout(60_000),
  );
  if (!stream.ok) throw new Error(stream.fault.message);
  return stream.value;
}
