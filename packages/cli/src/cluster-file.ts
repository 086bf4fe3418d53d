import type { CellPrograms } from "@dev/cell";
import * as v from "valibot";

/** A cluster that cells may be pods of, by the names in a settings file. */
export type ClusterFile = {
  readonly image: string;
  readonly server: string;
  readonly server_address?: string | undefined;
  readonly runtime_class?: string | undefined;
  readonly cpu?: string | undefined;
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  readonly namespace?: string | undefined;
};

const text = (what: string): v.GenericSchema<string> =>
  v.pipe(v.string(), v.minLength(1), v.description(what));

export const clusterSchema: v.GenericSchema<ClusterFile> = v.strictObject({
  image: text("What a pod is made of: it has Node.js and the agent."),
  server: v.pipe(
    v.string(),
    v.regex(/^https?:\/\/[^\s?#@]+$/, "it is the URL of a server, such as https://dev.example.com"),
    v.description("The server that a cell's agent dials, as a pod reaches it."),
  ),
  server_address: v.optional(text("Its IP address, if `server` has a name.")),
  runtime_class: v.optional(
    v.pipe(
      v.string(),
      v.description("The pod's runtime class (default: gvisor); empty for the cluster's own."),
    ),
  ),
  cpu: v.optional(text("What a pod is sure to have of a processor (default: 250m).")),
  kubeconfig: v.optional(text("The file (default: as kubectl finds it).")),
  context: v.optional(text("The context (default: the file's own).")),
  namespace: v.optional(text("The namespace (default: the context's).")),
});

/** What a file says of a cluster, as the vendor has it. */
export function clusterOf(file: ClusterFile | undefined): CellPrograms["kubernetes"] {
  if (file === undefined) return undefined;
  const { server_address: serverAddress, runtime_class: runtimeClass, ...rest } = file;
  return { ...rest, serverAddress, runtimeClass };
}
