import type { Action } from "./action.ts";
import type { Event, Mode, ModelAnswer, Usage } from "./event.ts";
import type { Fault, FaultCode } from "./fault.ts";
import { FAULT_CODES } from "./fault.ts";
import {
  boolAt,
  codeAt,
  digestAt,
  i32At,
  idAt,
  listAt,
  objectAt,
  type StructShape,
  struct,
  textAt,
  textsAt,
  type UnionShape,
  u32At,
  u64At,
  union,
  type Variants,
} from "./layout.ts";
import type { Call, Image, Message } from "./message.ts";
import type {
  CallOp,
  Change,
  Edit,
  EffectOp,
  Op,
  PlanItem,
  QuestionOp,
  ToolSpec,
  Variable,
} from "./op.ts";
import type { ExecEnd, Match, OpResult, Outcome } from "./outcome.ts";

/*
 * Every type of the protocol as it lies in a ZAP message: `xAt(n)` is a field of type x at byte n of
 * its object, a union's tag is its byte 0. What is written here is on disks and on wires: an offset,
 * a tag or a code is never changed or given to another. An object does not know its size, so a field
 * that is added would read the bytes behind an older object: a new field comes with a new tag, and the
 * tag before it stays readable (see `before`).
 */

export const FAULT: StructShape<Fault> = struct<Fault>("Fault", {
  code: codeAt<FaultCode>(0, numbered(FAULT_CODES)),
  message: textAt(8),
  subject: textAt(16),
  mend: textAt(24),
});

export const USAGE: StructShape<Usage> = struct<Usage>("Usage", {
  inputTokens: u64At(0),
  cachedTokens: u64At(8),
  outputTokens: u64At(16),
  reasoningTokens: u64At(24),
});

export const IMAGE: StructShape<Image> = struct<Image>("Image", {
  mediaType: textAt(0),
  data: textAt(8),
});

export const VARIABLE: StructShape<Variable> = struct<Variable>("Variable", {
  name: textAt(0),
  value: textAt(8),
});

export const EDIT: StructShape<Edit> = struct<Edit>("Edit", {
  old: textAt(0),
  new: textAt(8),
});

export const CHANGE: UnionShape<Change> = union<Change>("Change", {
  edits: { tag: 1, fields: { edits: listAt(8, EDIT) } },
  diff: { tag: 2, fields: { diff: textAt(8) } },
});

const EFFECTS: Variants<EffectOp> = {
  read: { tag: 1, fields: { path: textAt(8), from: u64At(16), to: u64At(24) } },
  search: {
    tag: 2,
    fields: {
      pattern: textAt(8),
      path: textAt(16),
      glob: textAt(24),
      match: codeAt(1, { text: 1, name: 2 }),
    },
  },
  write: {
    tag: 3,
    fields: { path: textAt(8), text: textAt(16), expect: digestAt(24, ["any", "absent"]) },
  },
  patch: {
    tag: 4,
    fields: {
      path: textAt(8),
      change: objectAt(4, CHANGE),
      expect: digestAt(16, ["any", "absent"]),
    },
  },
  exec: {
    tag: 5,
    fields: {
      argv: textsAt(8),
      cwd: textAt(16),
      env: listAt(24, VARIABLE),
      stdin: textAt(32),
      timeoutMs: u64At(40),
      background: boolAt(1),
    },
  },
  git: { tag: 6, fields: { argv: textsAt(8) } },
  browse: {
    tag: 7,
    fields: {
      url: textAt(8),
      method: textAt(16),
      headers: listAt(24, VARIABLE),
      body: textAt(32),
    },
  },
  tool: { tag: 8, fields: { server: textAt(8), name: textAt(16), arguments: textAt(24) } },
};

const QUESTION: Variants<QuestionOp> = {
  question: { tag: 9, fields: { text: textAt(8), choices: textsAt(16), many: boolAt(1) } },
};

/** Its tags continue those of the effects and the question, and are apart from an action's own. */
export const CALL_OP: UnionShape<CallOp> = union<CallOp>("CallOp", {
  ...EFFECTS,
  ...QUESTION,
  spawn: { tag: 32, fields: { prompt: textAt(8), agent: textAt(16), tools: textsAt(24) } },
  plan: {
    tag: 33,
    fields: {
      items: listAt(
        8,
        struct<PlanItem>("PlanItem", {
          text: textAt(8),
          status: codeAt(0, { pending: 1, active: 2, done: 3 }),
        }),
      ),
    },
  },
  invalid: { tag: 34, fields: { name: textAt(8), reason: textAt(16), arguments: textAt(24) } },
});

export const CALL: StructShape<Call> = struct<Call>("Call", {
  ref: textAt(8),
  op: objectAt(0, CALL_OP),
});

export const MESSAGE: UnionShape<Message> = union<Message>("Message", {
  user: { tag: 1, fields: { text: textAt(8), images: listAt(16, IMAGE) } },
  assistant: {
    tag: 4,
    fields: {
      text: textAt(8),
      reasoning: textAt(16),
      calls: listAt(24, CALL),
      opaque: textAt(32),
    },
    before: [{ tag: 2, lacks: ["opaque"] }],
  },
  tool: { tag: 3, fields: { ref: textAt(8), text: textAt(16), failed: boolAt(1) } },
});

export const TOOL_SPEC: StructShape<ToolSpec> = struct<ToolSpec>("ToolSpec", {
  name: textAt(0),
  description: textAt(8),
  parameters: textAt(16),
});

export const OP: UnionShape<Op> = union<Op>("Op", {
  ...EFFECTS,
  ...QUESTION,
  model: {
    tag: 16,
    fields: {
      purpose: codeAt(1, { turn: 1, compact: 2, title: 3 }),
      model: textAt(8),
      effort: codeAt(2, { default: 1, low: 2, medium: 3, high: 4 }),
      from: u64At(16),
      prelude: textAt(24),
      messages: listAt(32, MESSAGE),
      tools: listAt(40, TOOL_SPEC),
    },
  },
  emit: { tag: 17, fields: { text: textAt(8) } },
  save: { tag: 18, fields: {} },
  done: {
    tag: 19,
    fields: {
      turn: idAt(8),
      outcome: codeAt(1, { complete: 1, cancelled: 2, failed: 3, limit: 4 }),
      reason: textAt(16),
    },
  },
});

export const ACTION: StructShape<Action> = struct<Action>("Action", {
  id: idAt(0),
  agent: idAt(8),
  turn: idAt(16),
  op: objectAt(24, OP),
});

export const EXEC_END: UnionShape<ExecEnd> = union<ExecEnd>("ExecEnd", {
  exit: { tag: 1, fields: { code: i32At(4) } },
  signal: { tag: 2, fields: { signal: textAt(8) } },
  timeout: { tag: 3, fields: { afterMs: u64At(8) } },
  background: { tag: 4, fields: { name: textAt(8) } },
});

export const MATCH: StructShape<Match> = struct<Match>("Match", {
  path: textAt(0),
  line: u64At(8),
  text: textAt(16),
});

export const OP_RESULT: UnionShape<OpResult> = union<OpResult>("OpResult", {
  exec: {
    tag: 1,
    fields: {
      end: objectAt(4, EXEC_END),
      stdout: textAt(8),
      stderr: textAt(16),
      stdoutCutBytes: u64At(24),
      stderrCutBytes: u64At(32),
      durationMs: u64At(40),
      outputPath: textAt(48),
    },
  },
  read: {
    tag: 2,
    fields: {
      text: textAt(8),
      lossy: boolAt(1),
      sizeBytes: u64At(16),
      lineCount: u64At(24),
      digest: digestAt(32),
      cut: boolAt(2),
    },
  },
  write: {
    tag: 3,
    fields: {
      before: digestAt(8, ["absent"]),
      after: digestAt(16),
      sizeBytes: u64At(24),
      addedLines: u64At(32),
      removedLines: u64At(40),
    },
  },
  search: { tag: 4, fields: { matches: listAt(8, MATCH), cut: boolAt(1) } },
  browse: {
    tag: 5,
    fields: {
      status: u32At(4),
      headers: listAt(8, VARIABLE),
      body: textAt(16),
      cutBytes: u64At(24),
    },
  },
  tool: { tag: 6, fields: { text: textAt(8), failed: boolAt(1) } },
});

export const OUTCOME: UnionShape<Outcome> = union<Outcome>("Outcome", {
  ok: { tag: 1, fields: { result: objectAt(4, OP_RESULT) } },
  failed: { tag: 2, fields: { fault: objectAt(4, FAULT) } },
  refused: { tag: 3, fields: { rule: textAt(8), reason: textAt(16) } },
  unknown: { tag: 4, fields: { known: textAt(8) } },
  cancelled: { tag: 5, fields: { known: textAt(8) } },
});

export const MODEL_ANSWER: UnionShape<ModelAnswer> = union<ModelAnswer>("ModelAnswer", {
  reply: {
    tag: 4,
    fields: {
      text: textAt(8),
      reasoning: textAt(16),
      calls: listAt(24, CALL),
      stop: codeAt(1, { end: 1, calls: 2, length: 3, refusal: 4 }),
      opaque: textAt(32),
    },
    before: [{ tag: 1, lacks: ["opaque"] }],
  },
  failed: { tag: 2, fields: { fault: objectAt(4, FAULT), partial: textAt(8) } },
  cancelled: { tag: 3, fields: { partial: textAt(8) } },
});

export const EVENT: UnionShape<Event> = union<Event>("Event", {
  turn: {
    tag: 1,
    fields: {
      id: idAt(8),
      prompt: textAt(16),
      images: listAt(24, IMAGE),
      mode: codeAt<Mode>(1, { plan: 1, ask: 2, edits: 3, full: 4 }),
    },
  },
  model: {
    tag: 12,
    fields: {
      id: idAt(8),
      answer: objectAt(4, MODEL_ANSWER),
      usage: objectAt(16, USAGE),
      costMicroUsd: u64At(24),
    },
    before: [{ tag: 2, lacks: ["costMicroUsd"] }],
  },
  exec: { tag: 3, fields: { id: idAt(8), outcome: objectAt(4, OUTCOME) } },
  file: { tag: 4, fields: { id: idAt(8), outcome: objectAt(4, OUTCOME) } },
  git: { tag: 5, fields: { id: idAt(8), outcome: objectAt(4, OUTCOME) } },
  browse: { tag: 6, fields: { id: idAt(8), outcome: objectAt(4, OUTCOME) } },
  tool: { tag: 7, fields: { id: idAt(8), outcome: objectAt(4, OUTCOME) } },
  reply: { tag: 8, fields: { id: idAt(8), text: textAt(16), choices: textsAt(24) } },
  timer: { tag: 9, fields: {} },
  steer: { tag: 10, fields: { text: textAt(8) } },
  cancel: { tag: 11, fields: { turn: idAt(8) } },
});

/** The codes of words that are listed in wire order: the first is 1. */
function numbered<T extends string>(words: readonly T[]): { readonly [Word in T]: number } {
  return Object.fromEntries(words.map((word, index) => [word, index + 1])) as {
    readonly [Word in T]: number;
  };
}
