import type { Fault } from "@dev/protocol";

/** A fault as a person reads it: on what, what failed, what to do. */
export function faultText(fault: Fault): string {
  const subject = fault.subject === "" ? "" : `${fault.subject}: `;
  const mend = fault.mend === "" ? "" : `\n  ${fault.mend}`;
  return printable(`${subject}${fault.message}${mend}`);
}

/** Text from a model or a command, fit for a terminal: control characters could draw over the rest. */
export function printable(text: string): string {
  return text.replace(CONTROLS, "�");
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;
