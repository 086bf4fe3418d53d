import { type Captive, escapes, PROBES } from "./escape.ts";
import { OWN_ENVIRONMENT } from "./escape-environment.ts";
import { NOBODY, nobodysEnvironment, noRuntime } from "./machine.ts";

const CAPTIVES: readonly Captive[] = [
  { title: "a podman cell", vendor: "container", skip: noRuntime("podman") },
  {
    title: "a podman cell of an ordinary user",
    vendor: "container",
    uid: NOBODY,
    options: { environment: nobodysEnvironment() },
    skip: noRuntime("podman"),
  },
];

for (const captive of CAPTIVES) escapes(captive, [...PROBES, ...OWN_ENVIRONMENT]);
