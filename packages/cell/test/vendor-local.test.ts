import { vendorContract } from "./contract.ts";
import { isRoot, NOBODY, noBubblewrap } from "./machine.ts";

vendorContract({
  title: "a local cell",
  vendor: "local",
  boundary: "process",
  skip: noBubblewrap,
});

vendorContract({
  title: "a local cell of an ordinary user",
  vendor: "local",
  boundary: "process",
  uid: NOBODY,
  skip: noBubblewrap ?? (isRoot ? undefined : "the tests already run as an ordinary user"),
});

vendorContract({
  title: "a local cell without confinement",
  vendor: "local",
  boundary: "none",
  options: { confine: false },
  skip: undefined,
});
