import { type Fault, type FaultCode, fault } from "@dev/protocol";

/** What the operating system said, as a fault about `subject`. What is no system error is thrown on. */
export function systemFault(error: unknown, subject: string): Fault {
  const code = errnoOf(error);
  if (code === null) throw error;
  const known = KNOWN[code];
  if (known === undefined) return fault("io", `the system refused it (${code})`, subject);
  return fault(known.code, `${known.message} (${code})`, subject, known.mend);
}

/** The name of a system error, such as `ENOENT`; null for everything else. */
export function errnoOf(error: unknown): string | null {
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string")
    return null;
  return /^E[A-Z0-9]+$/.test(error.code) ? error.code : null;
}

type Explained = { readonly code: FaultCode; readonly message: string; readonly mend: string };

const KNOWN: Readonly<Record<string, Explained>> = {
  ENOENT: { code: "not_found", message: "there is no such file", mend: "search for its name" },
  ENOTDIR: {
    code: "not_found",
    message: "a part of the path is not a directory",
    mend: "search for its name",
  },
  EISDIR: { code: "not_a_file", message: "it is a directory", mend: "name a file in it" },
  ENXIO: { code: "not_a_file", message: "it is no regular file", mend: "" },
  ELOOP: {
    code: "path_escape",
    message: "a symbolic link stood where none was expected",
    mend: "name the file itself",
  },
  EACCES: { code: "io", message: "permission denied", mend: "look at its mode and owner" },
  EPERM: { code: "io", message: "not permitted", mend: "look at its mode and owner" },
  EROFS: { code: "io", message: "the file system is read-only", mend: "" },
  ENOSPC: { code: "io", message: "the disk is full", mend: "remove what is not needed" },
  EDQUOT: { code: "io", message: "the disk quota is used up", mend: "remove what is not needed" },
  EFBIG: { code: "too_large", message: "the file would be too large", mend: "" },
  ENAMETOOLONG: { code: "io", message: "the name is too long", mend: "use a shorter one" },
  EMFILE: { code: "limit", message: "too many files are open", mend: "end a background command" },
};
