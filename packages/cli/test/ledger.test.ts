import type { Outcome } from "@dev/protocol";
import type { LedgerLine, NetworkRequest } from "@dev/store";
import { expect, test } from "vitest";
import { endText, requestText } from "../src/ledger.ts";

const line = (more: Partial<LedgerLine>): LedgerLine => ({
  state: "completed",
  atMs: 0,
  attempt: 1,
  spool: "",
  outcome: null,
  usage: null,
  detail: "",
  ...more,
});

const exit: Outcome = {
  kind: "ok",
  result: {
    kind: "exec",
    end: { kind: "exit", code: 0 },
    stdout: "x",
    stderr: "",
    stdoutCutBytes: 0,
    stderrCutBytes: 0,
    durationMs: 1,
    outputPath: "",
  },
};

const usage = { inputTokens: 0, cachedTokens: 0, outputTokens: 0, reasoningTokens: 0 };

test("an outcome that came late is said in words", () => {
  const event = { kind: "exec", id: 3, outcome: exit };
  const detail = `late: ${JSON.stringify(event)}`;
  expect(endText(line({ detail }))).toBe("late: exit 0");
  expect(endText(line({ detail: detail.slice(0, 40) }))).toBe(
    "late: its answer, of which the ledger has the beginning",
  );
});

test("a model call that failed says why, and one that did not what it used", () => {
  expect(endText(line({ usage, detail: "HTTP 500" }))).toBe("failed: HTTP 500");
  expect(endText(line({ usage: { ...usage, inputTokens: 1200 } }))).toBe("1,200 tokens in, 0 out");
});

const request: NetworkRequest = {
  ...{ action: null, atMs: 0, durationMs: 4, host: "a.example", port: 443, method: "GET" },
  ...{ path: "/b", status: 200, upBytes: 0, downBytes: 12_345, verdict: "allowed" },
  ...{ rule: "allow a.example:443", reason: "" },
};

test("a request to the network is one line, with what it came to and by which rule", () => {
  expect(requestText(request)).toMatch(
    /^\d\d:\d\d:\d\d\.000 {2}network {5}GET a\.example:443\/b {2}200, 0 bytes up, 12,345 down; allow a\.example:443$/,
  );
  const refused = {
    ...request,
    host: "",
    verdict: "refused",
    reason: "it is no\u001b HTTP",
  } as const;
  expect(requestText(refused)).toMatch(/network {5}GET {2}refused: it is no/);
  expect(requestText(refused)).not.toContain("\u001b");
});
