import { failureLimit, failureOf, messageOf, outermost } from "./failure.ts";
import type { Failure, Report } from "./report.ts";
import { framesOf } from "./trace.ts";
import type { Transcript } from "./transcript.ts";
import { fileOf, type Place } from "./workspace.ts";

const result = /^test result: \w+\. (\d+) passed; (\d+) failed;/;
const broken = /^error: could not compile |^error\[E\d+\]/;

export function readsCargo({ lines }: Transcript): boolean {
  return lines.some((line) => result.test(line) || broken.test(line));
}

export function readCargo(transcript: Transcript, place: Place): Omit<Report, "runner"> {
  const { lines, stderr, stdout } = transcript;
  const counts = lines.map((line) => result.exec(line)).filter((it) => it !== null);
  if (counts.length === 0 && lines.some((line) => broken.test(line))) {
    return { failures: [uncompiled(lines, place)], passedCount: null, failedCount: null };
  }
  const roots = stderr.map(rootOf).filter((it) => it !== null);
  const failures: Failure[] = [];
  let target = -1;
  let block: { readonly name: string; readonly lines: string[] } | null = null;
  const flush = (): void => {
    if (block === null || failures.length >= failureLimit) return;
    failures.push(failureIn(block.name, block.lines, roots[target] ?? "", place));
    block = null;
  };
  for (const line of stdout) {
    const name = /^---- (\S.*) stdout ----$/.exec(line)?.[1];
    if (/^running \d+ tests?$/.test(line)) target += 1;
    if (name !== undefined) {
      flush();
      block = { name, lines: [] };
    } else if (/^failures:$/.test(line) || result.test(line)) flush();
    else block?.lines.push(line);
  }
  flush();
  const sum = (at: number): number => counts.reduce((all, it) => all + Number(it[at]), 0);
  const counted = counts.length > 0;
  return {
    failures,
    passedCount: counted ? sum(1) : null,
    failedCount: counted ? sum(2) : null,
  };
}

/** What cargo says before it runs a target's tests: the file at the target's root. */
function rootOf(line: string): string | null {
  const root = /^\s+Running (?:unittests )?(\S+\.rs) \(/.exec(line)?.[1];
  return root ?? (/^\s+Doc-tests \S+$/.test(line) ? "" : null);
}

function failureIn(name: string, lines: readonly string[], root: string, place: Place): Failure {
  const frames = framesOf(lines, place);
  const old = lines
    .map((line) => /panicked at '(.*)', \S+:\d+:\d+$/.exec(line)?.[1])
    .find((it) => it !== undefined);
  const at = lines.findIndex((line) => / panicked at .*:\d+:\d+:$/.test(line));
  const message =
    old ??
    messageOf(at < 0 ? lines : lines.slice(at + 1), (line) =>
      /^(?:note: |stack backtrace:)/.test(line),
    );
  const documented = /^(\S+\.rs) - /.exec(name)?.[1];
  const own = documented === undefined ? moduleFile(name, root, place) : fileOf(place, documented);
  return failureOf({ test: name, file: own ?? outermost(frames), kind: null, message, frames });
}

/** The file of a test's module, as the module's path says it. */
function moduleFile(name: string, root: string, place: Place): string | null {
  const modules = name.split("::").slice(0, -1);
  const base = root === "" ? "src" : root.slice(0, Math.max(0, root.lastIndexOf("/")));
  for (let count = modules.length; count > 0; count -= 1) {
    const path = [base, ...modules.slice(0, count)].join("/");
    const file = fileOf(place, `${path}.rs`) ?? fileOf(place, `${path}/mod.rs`);
    if (file !== null) return file;
  }
  return root === "" ? null : fileOf(place, root);
}

function uncompiled(lines: readonly string[], place: Place): Failure {
  const from = lines.findIndex((line) => /^error(?:\[E\d+\])?: /.test(line));
  const message = (lines[from] ?? "").replace(/^error(?:\[E\d+\])?: /, "");
  const frames = framesOf(
    lines.slice(Math.max(0, from)).filter((line) => /^\s*--> /.test(line)),
    place,
  );
  return failureOf({ test: "", file: null, kind: "load", message, frames });
}
