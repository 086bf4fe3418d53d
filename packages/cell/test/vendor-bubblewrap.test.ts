import { vendorContract } from "./contract.ts";
import { isRoot, NOBODY, noBubblewrap } from "./machine.ts";

vendorContract({
  title: "a bubblewrap cell",
  vendor: "bubblewrap",
  boundary: "cell",
  skip: noBubblewrap,
});

vendorContract({
  title: "a bubblewrap cell of an ordinary user",
  vendor: "bubblewrap",
  boundary: "cell",
  uid: NOBODY,
  skip: noBubblewrap ?? (isRoot ? undefined : "the tests already run as an ordinary user"),
});
