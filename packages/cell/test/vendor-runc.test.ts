import { vendorContract } from "./contract.ts";
import { NOBODY, noRuntime } from "./machine.ts";

vendorContract({
  title: "a runc cell",
  vendor: "runc",
  boundary: "cell",
  skip: noRuntime("runc"),
});

vendorContract({
  title: "a runc cell of an ordinary user",
  vendor: "runc",
  boundary: "cell",
  uid: NOBODY,
  skip: noRuntime("runc"),
});
