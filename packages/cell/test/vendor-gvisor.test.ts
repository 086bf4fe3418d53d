import { vendorContract } from "./contract.ts";
import { NOBODY, noRuntime, runsc } from "./machine.ts";

vendorContract({
  title: "a gVisor cell",
  vendor: "gvisor",
  boundary: "cell",
  kernel: "own",
  skip: noRuntime(runsc),
});

vendorContract({
  title: "a gVisor cell of an ordinary user",
  vendor: "gvisor",
  boundary: "cell",
  kernel: "own",
  uid: NOBODY,
  skip: noRuntime(runsc),
});
