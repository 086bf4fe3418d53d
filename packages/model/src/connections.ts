import type { Agent, ClientRequest, RequestOptions } from "node:http";
import { Agent as HttpAgent, request as httpRequest } from "node:http";

/** Connections to providers, kept open between asks so that a turn pays for one handshake. */
export interface Connections {
  /** Begins a request; `url` is http or https. Throws on what no request can carry. */
  request(url: URL, options: RequestOptions): Promise<ClientRequest>;
  close(): void;
}

export function openConnections(perProviderCount: number): Connections {
  const options = { keepAlive: true, maxSockets: perProviderCount };
  const agents: Agent[] = [];
  const kept = <T extends Agent>(agent: T): T => {
    agents.push(agent);
    return agent;
  };
  const plain = kept(new HttpAgent(options));
  let secure: Promise<(url: URL, options: RequestOptions) => ClientRequest> | null = null;
  // TLS is loaded when it is first needed: it costs milliseconds that a local model need not pay.
  const loadSecure = async () => {
    const https = await import("node:https");
    const agent = kept(new https.Agent(options));
    return (url: URL, more: RequestOptions) => https.request(url, { ...more, agent });
  };
  return {
    async request(url, more) {
      if (url.protocol === "http:") return httpRequest(url, { ...more, agent: plain });
      secure ??= loadSecure();
      return (await secure)(url, more);
    },
    close() {
      for (const agent of agents) agent.destroy();
    },
  };
}
