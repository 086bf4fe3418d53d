import type { Digest } from "@dev/protocol";

/** What stands at a path of a tree. Modes are the permission bits alone, without set-id bits. */
export type TreeNode =
  | {
      readonly kind: "file";
      readonly mode: number;
      readonly sizeBytes: number;
      readonly digest: Digest;
    }
  | { readonly kind: "directory"; readonly mode: number }
  | { readonly kind: "symlink"; readonly target: string };

/** What a walk left out, and why. `changing`: it was written to each time that it was read. */
export type Skipped = {
  readonly path: string;
  readonly why: SkippedWhy;
};

export type SkippedWhy =
  | "socket"
  | "fifo"
  | "device"
  | "unreadable"
  /** Its name, or a symlink's target, is not UTF-8. */
  | "name"
  /** It lies deeper than DEPTH_LIMIT. */
  | "depth"
  | "changing"
  /** It is the copy itself, or its base. */
  | "own"
  /** It is larger than FILE_LIMIT_BYTES. */
  | "size";

export function sameNode(one: TreeNode, other: TreeNode): boolean {
  switch (one.kind) {
    case "file":
      return other.kind === "file" && one.mode === other.mode && one.digest === other.digest;
    case "directory":
      return other.kind === "directory" && one.mode === other.mode;
    case "symlink":
      return other.kind === "symlink" && one.target === other.target;
  }
}
