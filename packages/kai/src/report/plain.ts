import { failureOf, kindOf, messageOf } from "./failure.ts";
import { pythonMessage } from "./python.ts";
import type { Failure, Frame } from "./report.ts";
import { framesOf } from "./trace.ts";
import type { Transcript } from "./transcript.ts";
import type { Place } from "./workspace.ts";

/** Reads output of no known form: what it says is wrong, and the places it names. Null if all went well. */
export function readPlain(transcript: Transcript, place: Place): Failure | null {
  const { end, stderr, stdout } = transcript;
  if (end.kind === "exit" && end.code === 0) return null;
  const made = (kind: Failure["kind"] | null, message: string, frames: readonly Frame[]): Failure =>
    failureOf({ test: "", file: null, kind, message, frames });
  // How far a run came before its end was waited for is chance, and says nothing.
  if (end.kind === "timeout") return made("error", "it did not end in time", []);
  for (const lines of [stderr, stdout]) {
    const told = tracebackOf(lines) ?? exceptionOf(lines) ?? compilerOf(lines);
    if (told === null) continue;
    const frames = framesOf(told.lines, place);
    return made(told.kind, told.message, frames);
  }
  const all = [...stdout, ...stderr];
  const frames = framesOf(all, place);
  const named = all.findLast((line) => framesOf([line], place).length > 0 && wrong.test(line));
  const said =
    named ??
    stderr.findLast(isError) ??
    stdout.findLast(isError) ??
    lastOf(stderr) ??
    lastOf(stdout);
  const ended = end.kind === "signal" ? `ended by ${end.signal}` : `exit status ${end.code}`;
  return made(
    kindOfEnd(said),
    said?.replace(/^\s*(?:\.\/)?\S+?:\d+(?::\d+)?: /, "") ?? ended,
    frames,
  );
}

/** The failure of a file that a runner started and that ended by itself, saying these lines. */
export function crashOf(file: string, lines: readonly string[], place: Place): Failure {
  const end = { kind: "exit", code: 1 } as const;
  const read = readPlain({ lines, stdout: [], stderr: lines, end }, place);
  const said = read ?? { kind: "error", message: "", frames: [] };
  return { ...said, test: file, file };
}

type Told = {
  readonly kind: Failure["kind"] | null;
  readonly message: string;
  readonly lines: readonly string[];
};

const wrong = /error|fail|expect|assert|want|panic|not |exception|wrong|mismatch|abort|:\d+: /i;

function isError(line: string): boolean {
  return (
    /error|fail|expected|assert|panic|exception/i.test(line) && !/^make(?:\[\d+\])?: /.test(line)
  );
}

function lastOf(lines: readonly string[]): string | undefined {
  return lines.findLast((line) => line.trim() !== "" && !/^make(?:\[\d+\])?: /.test(line));
}

function kindOfEnd(said: string | undefined): Failure["kind"] | null {
  return said === undefined ? "error" : null;
}

function tracebackOf(lines: readonly string[]): Told | null {
  const last = lines.findLastIndex((line) => /^\s*File ".*", line \d+/.test(line));
  const from = lines.findIndex((line) =>
    /^\s*(?:Traceback \(most recent|File ".*", line \d+)/.test(line),
  );
  if (last < 0) return null;
  return { kind: null, message: pythonMessage(lines), lines: lines.slice(from) };
}

const javaHead =
  /^(?:Exception in thread "[^"]*" |Caused by: )?([\w.$]*(?:Error|Exception)\w*(?:: .*)?)$/;
const nodeHead = /^(?:Uncaught )?(\w*(?:Error|Exception)(?: \[\w+\])?(?:: .*)?)$/;
const panicHead = /^(?:thread '.*' (?:\(\d+\) )?panicked at|panic: |fatal error: )/;
const frame = /^\s+at \S/;

/** An exception that nothing caught, as Node, Java, Go and Rust tell it; the last one if there are more. */
function exceptionOf(lines: readonly string[]): Told | null {
  const at = lines.findLastIndex((line, index) => {
    if (panicHead.test(line)) return true;
    if (!javaHead.test(line) && !nodeHead.test(line)) return false;
    return /^Exception in thread/.test(line) || hasFrames(lines, index);
  });
  const head = lines[at];
  if (head === undefined) return null;
  if (panicHead.test(head)) {
    const own = head.replace(/^(?:panic|fatal error): /, "").replace(/ \[recovered.*\]$/, "");
    const rust = head.startsWith("thread ") && head.endsWith(":") ? (lines[at + 1] ?? "") : own;
    return { kind: null, message: rust, lines: lines.slice(at) };
  }
  const [first = "", ...rest] = lines.slice(at);
  const message = messageOf([first.replace(javaHead, "$1"), ...rest], (line) => frame.test(line));
  // Node names the place of an error in code that it could not read only above the error.
  const before = lines
    .slice(Math.max(0, at - 6), at)
    .filter((line) => /^(?:file:\/\/)?\/.*:\d+$/.test(line));
  const cause = lines.findIndex((line) => /^Exception in thread/.test(line));
  const from = cause < 0 ? at : Math.min(cause, at);
  const traced = [...lines.slice(at), ...lines.slice(from, at)];
  return { kind: thrownKind(message), message, lines: [...before, ...traced] };
}

function thrownKind(message: string): Failure["kind"] | null {
  return /^[\w.]*Assert\w*/.test(message) ? "assertion" : kindOf(message);
}

const messageReach = 60;

function hasFrames(lines: readonly string[], at: number): boolean {
  return lines.slice(at + 1, at + 1 + messageReach).some((line) => frame.test(line));
}

function compilerOf(lines: readonly string[]): Told | null {
  const error =
    /^(?:\[ERROR\] )?(?:\.\/)?(\S+?):(?:\[?\d+(?:[:,]\d+)?\]?:?)\s*(?:fatal )?error(?:\s\w+)?: (.*)$|^error(?:\[\w+\])?: (.*)$|^(\S+)\(\d+,\d+\): error \w+: (.*)$/;
  const at = lines.findIndex((line) => error.test(line));
  const match = error.exec(lines[at] ?? "");
  if (match === null) return null;
  return { kind: "load", message: match[2] ?? match[3] ?? match[5] ?? "", lines: lines.slice(at) };
}
