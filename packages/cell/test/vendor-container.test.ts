import { vendorContract } from "./contract.ts";
import { NOBODY, nobodysEnvironment, noRuntime } from "./machine.ts";

vendorContract({
  title: "a podman cell",
  vendor: "container",
  boundary: "cell",
  skip: noRuntime("podman"),
});

vendorContract({
  title: "a podman cell of an ordinary user",
  vendor: "container",
  boundary: "cell",
  uid: NOBODY,
  options: { environment: nobodysEnvironment() },
  skip: noRuntime("podman"),
});
