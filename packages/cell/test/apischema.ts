import * as client from "@kubernetes/client-node";

/*
 * What an API server would say of an object that it is sent: by the client's own models, which are made from
 * the published OpenAPI schema, for the fields and their types; by hand for what those do not have.
 */

type Attribute = { readonly baseName: string; readonly type: string };
type Model = { getAttributeTypeMap(): readonly Attribute[] };

/** Fields without which an object of a type is none. */
const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  V1ObjectMeta: ["name", "namespace"],
  V1OwnerReference: ["apiVersion", "kind", "name", "uid"],
  V1Pod: ["metadata", "spec"],
  V1PodSpec: ["containers"],
  V1Container: ["name", "image"],
  V1EnvVar: ["name"],
  V1Volume: ["name"],
  V1VolumeMount: ["name", "mountPath"],
  V1HostAlias: ["ip"],
  V1SeccompProfile: ["type"],
  V1NetworkPolicy: ["metadata", "spec"],
  V1NetworkPolicySpec: ["podSelector"],
  V1IPBlock: ["cidr"],
  V1Secret: ["metadata", "data"],
  V1ConfigMap: ["metadata"],
  Sandbox: ["metadata", "spec"],
};

/** Of the custom resource: its own fields, by the names that its definition has. */
const CUSTOM: Readonly<Record<string, readonly Attribute[]>> = {
  Sandbox: [
    { baseName: "apiVersion", type: "string" },
    { baseName: "kind", type: "string" },
    { baseName: "metadata", type: "V1ObjectMeta" },
    { baseName: "spec", type: "SandboxSpec" },
  ],
  SandboxSpec: [
    { baseName: "podTemplate", type: "SandboxPodTemplate" },
    { baseName: "replicas", type: "number" },
    { baseName: "shutdownTime", type: "string" },
    { baseName: "shutdownPolicy", type: "string" },
  ],
  SandboxPodTemplate: [
    { baseName: "metadata", type: "SandboxPodMetadata" },
    { baseName: "spec", type: "V1PodSpec" },
  ],
  SandboxPodMetadata: [
    { baseName: "labels", type: "{ [key: string]: string; }" },
    { baseName: "annotations", type: "{ [key: string]: string; }" },
  ],
};

const ENUMS: Readonly<Record<string, readonly string[]>> = {
  "V1PodSpec.restartPolicy": ["Always", "OnFailure", "Never"],
  "V1PodSpec.dnsPolicy": ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
  "V1Container.terminationMessagePolicy": ["File", "FallbackToLogsOnError"],
  "V1SeccompProfile.type": ["RuntimeDefault", "Localhost", "Unconfined"],
  "V1NetworkPolicyPort.protocol": ["TCP", "UDP", "SCTP"],
};

const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const QUALIFIED = /^([a-z0-9.-]{1,253}\/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;
const LABEL_VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$/;
const QUANTITY = /^[+-]?(\d+|\d+\.\d*|\.\d+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?\d+))?$/;
const CIDR = /^([\d.]+|[\da-f:]+)\/\d{1,3}$/;

/** What is wrong with an object; empty when nothing is. */
export function flaws(object: Record<string, unknown>): readonly string[] {
  const { kind } = object;
  const type = kind === "Sandbox" ? "Sandbox" : `V1${String(kind)}`;
  return [...walk(object, type, ""), ...namesOf(object), ...podFlaws(podSpecIn(object))];
}

/** What the namespace's admission, which is that of the `restricted` standard, says of a pod. */
export function restrictions(object: Record<string, unknown>): readonly string[] {
  const spec = podSpecIn(object);
  if (spec === undefined) return [];
  const found: string[] = [];
  const demand = (holds: boolean, text: string): void => {
    if (!holds) found.push(text);
  };
  demand(spec.hostNetwork !== true && spec.hostPID !== true && spec.hostIPC !== true, "host");
  demand(spec.automountServiceAccountToken === false, "automountServiceAccountToken");
  demand(spec.enableServiceLinks === false, "enableServiceLinks");
  demand(spec.securityContext?.runAsNonRoot === true, "runAsNonRoot");
  demand((spec.securityContext?.runAsUser ?? 0) > 0, "runAsUser");
  const kinds = (spec.volumes ?? []).flatMap((volume) => Object.keys(volume));
  demand(
    kinds.every((key) => ["name", "emptyDir", "secret"].includes(key)),
    "volumes",
  );
  for (const volume of spec.volumes ?? []) {
    if (volume.emptyDir !== undefined) demand(volume.emptyDir.sizeLimit !== undefined, "sizeLimit");
  }
  for (const { env = [], resources, securityContext: own } of spec.containers) {
    demand(own?.privileged !== true, "privileged");
    demand(own?.allowPrivilegeEscalation === false, "allowPrivilegeEscalation");
    demand(own?.readOnlyRootFilesystem === true, "readOnlyRootFilesystem");
    demand(own?.capabilities?.drop?.includes("ALL") === true, "capabilities");
    demand(own?.capabilities?.add === undefined, "capabilities.add");
    demand(own?.seccompProfile?.type === "RuntimeDefault", "seccompProfile");
    demand(resources?.limits?.memory !== undefined, "limits.memory");
    demand(resources?.limits?.["ephemeral-storage"] !== undefined, "limits.ephemeral-storage");
    demand(!env.some(({ name }) => /^DEV_CELL_TOKEN$/.test(name)), "a token in the environment");
  }
  return found;
}

function podSpecIn(object: Record<string, unknown>): client.V1PodSpec | undefined {
  if (object.kind === "Pod") return object.spec as client.V1PodSpec;
  if (object.kind !== "Sandbox") return undefined;
  return (object.spec as { podTemplate?: { spec?: client.V1PodSpec } }).podTemplate?.spec;
}

function attributesOf(type: string): readonly Attribute[] | undefined {
  const custom = CUSTOM[type];
  if (custom !== undefined) return custom;
  const model = (client as unknown as Readonly<Record<string, Model | undefined>>)[type];
  return model?.getAttributeTypeMap();
}

function walk(value: unknown, type: string, path: string): readonly string[] {
  const listed = /^Array<(.+)>$/.exec(type)?.[1];
  if (listed !== undefined) {
    if (!Array.isArray(value)) return [`${path}: not a list`];
    return value.flatMap((one, index) => walk(one, listed, `${path}[${index}]`));
  }
  const mapped = /^\{ \[key: string\]: (.+); \}$/.exec(type)?.[1];
  if (mapped !== undefined) {
    if (!isTable(value)) return [`${path}: not a map`];
    return Object.entries(value).flatMap(([key, one]) => walk(one, mapped, `${path}.${key}`));
  }
  if (["string", "number", "boolean"].includes(type)) {
    return typeof value === type ? [] : [`${path}: ${JSON.stringify(value)} is no ${type}`];
  }
  if (type === "IntOrString") {
    return ["string", "number"].includes(typeof value) ? [] : [`${path}: no number and no name`];
  }
  const attributes = attributesOf(type);
  if (attributes === undefined) return [`${path}: nothing is known of ${type}`];
  if (!isTable(value)) return [`${path}: not an object`];
  const found: string[] = [];
  for (const name of REQUIRED[type] ?? []) {
    if (value[name] === undefined) found.push(`${path}.${name}: required`);
  }
  for (const [key, one] of Object.entries(value)) {
    const attribute = attributes.find(({ baseName }) => baseName === key);
    if (attribute === undefined) found.push(`${path}.${key}: unknown field`);
    else if (one === null) found.push(`${path}.${key}: null`);
    else found.push(...walk(one, attribute.type, `${path}.${key}`), ...known(type, key, one));
  }
  return found;
}

/** What a value has to be besides its type. */
function known(type: string, key: string, value: unknown): readonly string[] {
  const path = `${type}.${key}`;
  const allowed = ENUMS[path];
  if (allowed !== undefined && !allowed.includes(String(value))) return [`${path}: ${value}`];
  if (path === "V1IPBlock.cidr" && !CIDR.test(String(value))) return [`${path}: ${value}`];
  const quantities =
    type === "V1ResourceRequirements" && isTable(value)
      ? Object.values(value)
      : path === "V1EmptyDirVolumeSource.sizeLimit"
        ? [value]
        : [];
  const labels = ["V1ObjectMeta.labels", "V1LabelSelector.matchLabels"].includes(path)
    ? Object.entries(value as Record<string, string>)
    : [];
  return [
    ...quantities.filter((text) => !QUANTITY.test(String(text))).map((text) => `${path}: ${text}`),
    ...labels
      .filter(
        ([name, text]) => !QUALIFIED.test(name) || !LABEL_VALUE.test(text) || text.length > 63,
      )
      .map(([name, text]) => `${path}: ${name}=${text}`),
  ];
}

function namesOf({ metadata }: Record<string, unknown>): readonly string[] {
  const { name = "", annotations = {} } = (metadata ?? {}) as client.V1ObjectMeta;
  return [
    ...(SUBDOMAIN.test(name) && name.length <= 253 ? [] : [`metadata.name: ${name}`]),
    ...Object.keys(annotations)
      .filter((key) => !QUALIFIED.test(key))
      .map((key) => `metadata.annotations: ${key}`),
  ];
}

function podFlaws(spec: client.V1PodSpec | undefined): readonly string[] {
  if (spec?.containers === undefined) return [];
  const volumes = (spec.volumes ?? []).map(({ name }) => name);
  const used = spec.containers.flatMap(({ volumeMounts = [] }) => volumeMounts);
  const names = [...volumes, ...spec.containers.map(({ name }) => name)];
  return [
    ...used.filter(({ name }) => !volumes.includes(name)).map(({ name }) => `no volume ${name}`),
    ...names.filter((name) => !LABEL.test(name) || name.length > 63).map((name) => `name ${name}`),
    ...(new Set(used.map(({ mountPath }) => mountPath)).size === used.length ? [] : ["mounts"]),
  ];
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
