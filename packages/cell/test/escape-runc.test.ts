import { type Captive, escapes, PROBES } from "./escape.ts";
import { OWN_ENVIRONMENT } from "./escape-environment.ts";
import { NOBODY, noRuntime } from "./machine.ts";

const CAPTIVES: readonly Captive[] = [
  { title: "a runc cell", vendor: "runc", skip: noRuntime("runc") },
  {
    title: "a runc cell of an ordinary user",
    vendor: "runc",
    uid: NOBODY,
    skip: noRuntime("runc"),
  },
];

for (const captive of CAPTIVES) escapes(captive, [...PROBES, ...OWN_ENVIRONMENT]);
