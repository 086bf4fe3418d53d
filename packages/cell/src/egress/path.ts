/** A path and a query as they stand in a request, in every form that an origin may take them for. */
export type RequestPath = {
  /** As written, with its query: what is passed on. */
  readonly written: string;
  /** Without the query: as written, and with its escapes resolved. */
  readonly forms: readonly string[];
  readonly query: string;
};

/** Escapes of escapes: what is left after so many is somebody's trick. */
const DECODE_ROUNDS = 3;

/**
 * Reads the target of a request, from its path on. Null: it leads elsewhere than it seems to (`..`, a
 * backslash, escapes of escapes), so that no prefix of it says anything.
 */
export function readPath(written: string): RequestPath | null {
  if (!/^\/[\x21\x23-\x7e]*$/.test(written) || /[#\\]/.test(written)) return null;
  const at = written.indexOf("?");
  const path = at === -1 ? written : written.slice(0, at);
  const query = at === -1 ? "" : written.slice(at + 1);
  const decoded = decode(path);
  if (decoded === null || hasControl(decoded) || decoded.includes("\\")) return null;
  // Some origins drop what stands behind a `;` of a segment, and what is left may be dots.
  const segments = decoded.split("/").map((segment) => segment.split(";")[0]);
  if (segments.some((segment) => segment === "." || segment === "..")) return null;
  return { written, forms: path === decoded ? [path] : [path, decoded], query };
}

function hasControl(text: string): boolean {
  return [...text].some((each) => each < " " || each === "\x7f");
}

function decode(path: string): string | null {
  let text = path;
  for (let round = 0; round < DECODE_ROUNDS; round++) {
    let next: string;
    try {
      next = decodeURIComponent(text);
    } catch {
      return null;
    }
    if (next === text) return text;
    text = next;
  }
  return null;
}

/** Why no path begins with this. */
export function pathFlaw(prefix: string): string | null {
  if (!prefix.startsWith("/")) return "a path begins with a slash";
  if (prefix.includes("?")) return "a path has no query";
  return readPath(prefix)?.forms.length === 1 ? null : "a path has no dots, spaces or escapes";
}

/** Whether git would change the repository: its service is in the path, or asked for by name. */
export function isPush({ forms, query }: RequestPath): boolean {
  const asked = new URLSearchParams(query).getAll("service");
  return asked.includes(PUSH) || forms.some((form) => lastOf(form) === PUSH);
}

/** Whether it is a call of one of git's services, which are asked for by POST. */
export function services({ forms }: RequestPath): boolean {
  return forms.every((form) => lastOf(form) === PUSH || lastOf(form) === "git-upload-pack");
}

const PUSH = "git-receive-pack";

function lastOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
