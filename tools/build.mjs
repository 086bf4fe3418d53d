import { BUILD, step } from "./step.mjs";

for (const [name, argv] of BUILD) {
  if (!(await step(name, argv))) process.exit(1);
}
