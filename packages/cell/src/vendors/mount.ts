import { never } from "@dev/protocol";

/** One thing that a sandbox has at a path; everything else is absent or as what is above it. */
export type Mount =
  | { readonly kind: "bind"; readonly source: string; readonly at: string; readonly write: boolean }
  | {
      readonly kind: "tmpfs";
      readonly at: string;
      readonly sizeBytes: number;
      /** In octal. */
      readonly mode: string;
    }
  /** An empty directory, in place of what lies there, that nobody writes in. */
  | { readonly kind: "hidden"; readonly at: string }
  /** A read-only file with this text. */
  | { readonly kind: "text"; readonly at: string; readonly text: string }
  | { readonly kind: "symlink"; readonly to: string; readonly at: string }
  | { readonly kind: "proc" | "dev"; readonly at: string };

export type MountArguments = {
  readonly args: readonly string[];
  /** To be given to bubblewrap as descriptors, from `firstDescriptor` upwards. */
  readonly files: readonly Uint8Array[];
};

/**
 * bubblewrap's arguments for these. What is above is mounted before what is below it, so the order of
 * the list decides nothing; of two at one path the later one is seen.
 */
export function mountArguments(mounts: readonly Mount[], firstDescriptor: number): MountArguments {
  const files: Uint8Array[] = [];
  const sorted = arranged(mounts);
  const args = sorted.flatMap((mount) => {
    if (mount.kind !== "text") return argumentsOf(mount);
    files.push(Buffer.from(mount.text));
    return ["--ro-bind-data", String(firstDescriptor + files.length - 1), mount.at];
  });
  // Only now: a deeper mount's own directory may have been made in it.
  for (const mount of sorted) if (mount.kind === "hidden") args.push("--remount-ro", mount.at);
  return { args, files };
}

/** In the order to mount them in: what is above before what is below it, and of two at one path the later. */
export function arranged(mounts: readonly Mount[]): readonly Mount[] {
  return mounts
    .filter((mount, index) => !mounts.slice(index + 1).some((later) => later.at === mount.at))
    .sort((one, other) => depthOf(one.at) - depthOf(other.at));
}

/** Whether `path` is `directory`, or lies below it; both absolute. */
export function isWithin(path: string, directory: string): boolean {
  return directory === "/" || path === directory || path.startsWith(`${directory}/`);
}

function argumentsOf(mount: Exclude<Mount, { kind: "text" }>): readonly string[] {
  switch (mount.kind) {
    case "bind":
      return [mount.write ? "--bind" : "--ro-bind", mount.source, mount.at];
    case "tmpfs":
      return ["--size", String(mount.sizeBytes), "--perms", mount.mode, "--tmpfs", mount.at];
    case "hidden":
      return ["--size", String(HIDDEN_BYTES), "--perms", "0555", "--tmpfs", mount.at];
    case "symlink":
      return ["--symlink", mount.to, mount.at];
    case "proc":
      return ["--proc", mount.at];
    case "dev":
      return ["--dev", mount.at];
    default:
      return never(mount);
  }
}

/** A page: enough for the directories that lead to deeper mounts. */
const HIDDEN_BYTES = 64 * 1024;

function depthOf(path: string): number {
  return path.split("/").filter((part) => part !== "").length;
}
