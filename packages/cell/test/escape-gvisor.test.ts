import { type Captive, escapes, PROBES } from "./escape.ts";
import { OWN_ENVIRONMENT } from "./escape-environment.ts";
import { NOBODY, noRuntime, runsc } from "./machine.ts";

const CAPTIVES: readonly Captive[] = [
  { title: "a gVisor cell", vendor: "gvisor", kernel: "own", skip: noRuntime(runsc) },
  {
    title: "a gVisor cell of an ordinary user",
    vendor: "gvisor",
    kernel: "own",
    uid: NOBODY,
    skip: noRuntime(runsc),
  },
];

for (const captive of CAPTIVES) escapes(captive, [...PROBES, ...OWN_ENVIRONMENT]);
