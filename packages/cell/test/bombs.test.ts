import { type Bombed, bombs } from "./bombs.ts";
import { noBubblewrap, noRuntime, runsc } from "./machine.ts";

const REFUSED: Bombed["ends"] = {
  processes: "refused",
  descriptors: "refused",
  file: "refused",
  "memory files": "refused",
  memory: "killed",
  disk: "killed",
  output: "refused",
};

const KINDS: readonly Bombed[] = [
  {
    title: "a bubblewrap cell",
    vendor: "bubblewrap",
    skip: noBubblewrap,
    // An ordinary user's machine may count it for nobody: this is what root's does.
    ends: { ...REFUSED, memory: process.getuid?.() === 0 ? "killed" : "unbounded" },
  },
  { title: "a runc cell", vendor: "runc", skip: noRuntime("runc"), ends: REFUSED },
  { title: "a podman cell", vendor: "container", skip: noRuntime("podman"), ends: REFUSED },
  {
    title: "a gVisor cell",
    vendor: "gvisor",
    skip: noRuntime(runsc),
    // Its memory is one process of the machine's, which ends with all that is in it.
    ends: { ...REFUSED, memory: "lost" },
  },
];

for (const kind of KINDS) bombs(kind);
