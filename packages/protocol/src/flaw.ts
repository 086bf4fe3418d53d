import { fail, fault, type Result } from "./fault.ts";

/** Why a value could not be read, and where in it: what `undefined` stands for while reading. */
export type Flaw = { why: string; path: string };

/** Notes what is wrong, here. */
export function flawed(flaw: Flaw, why: string): undefined {
  flaw.why = why;
  flaw.path = "";
}

/** Notes that what is wrong is within this field or element. */
export function within(flaw: Flaw, step: string): undefined {
  flaw.path = step + flaw.path;
}

/** The fault that a flaw is; its subject is the path. */
export function malformed(flaw: Flaw, name: string): Result<never> {
  const path = flaw.path.startsWith(".") ? flaw.path.slice(1) : flaw.path;
  return fail(fault("malformed", `${name}: ${path === "" ? "" : `${path} `}${flaw.why}`, path));
}
