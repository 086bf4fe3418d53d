import {
  type ExecOp,
  fail,
  fault,
  type GitOp,
  ok,
  type Result,
  type Variable,
} from "@dev/protocol";

/** Nobody is there to answer: git never asks, pages or opens an editor. */
const ENVIRONMENT: readonly Variable[] = [
  { name: "GIT_TERMINAL_PROMPT", value: "0" },
  { name: "GIT_PAGER", value: "cat" },
  { name: "PAGER", value: "cat" },
  { name: "GIT_EDITOR", value: "true" },
  { name: "GIT_SEQUENCE_EDITOR", value: "true" },
  { name: "GIT_ASKPASS", value: "true" },
  { name: "SSH_ASKPASS", value: "true" },
  { name: "GIT_SSH_COMMAND", value: "ssh -o BatchMode=yes" },
];

/** A `Git` as the command that it is. Fault: `bad_call`. */
export function gitCommand(op: GitOp): Result<ExecOp> {
  if (op.argv.length === 0 || op.argv[0] === "") {
    return fail(fault("bad_call", "git is given nothing to do", "git", "name one of its commands"));
  }
  return ok({
    kind: "exec",
    argv: ["git", ...op.argv],
    cwd: ".",
    env: ENVIRONMENT,
    stdin: "",
    timeoutMs: 0,
    background: false,
  });
}
