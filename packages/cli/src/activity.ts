import { timeText } from "./figure.ts";
import { fitted } from "./say.ts";

/** A line at the end of a terminal that says what is at work, once that takes over a second. */
export type Activity = {
  /** Something begins, or says anew what it is. */
  begin(key: string, what: string): void;
  end(key: string): void;
  /** Nothing is at work any more. */
  clear(): void;
  /** Writes above the line; what is written while it is hidden waits until it is back. */
  above(text: string): void;
  /** Leaves the terminal to a question, until it is called back. */
  hide(): void;
  show(): void;
};

export type ActivityTerms = {
  readonly write: (text: string) => void;
  readonly columnCount: () => number;
  readonly nowMs: () => number;
  readonly dim: (text: string) => string;
};

/** How long something may take before it is said to be at work. */
const PATIENCE_MS = 1_000;
/** How often the line is looked at. */
const TICK_MS = 250;
const ERASE = "\r\x1b[2K";

/** An activity line on a terminal. */
export function openActivity({ write, columnCount, nowMs, dim }: ActivityTerms): Activity {
  const running = new Map<string, { what: string; readonly sinceMs: number }>();
  let shown = "";
  let isHidden = false;
  const page = openPage(write);
  let timer: NodeJS.Timeout | null = null;
  const erase = (): void => {
    if (shown !== "") write(ERASE);
    shown = "";
  };
  const draw = (): void => {
    const text = isHidden ? "" : lineOf([...running.values()], nowMs(), columnCount());
    if (text === shown) return;
    erase();
    if (text !== "") write(dim(text));
    shown = text;
  };
  const settle = (): void => {
    if (running.size > 0) {
      timer ??= setInterval(draw, TICK_MS).unref();
      return;
    }
    if (timer !== null) clearInterval(timer);
    timer = null;
    erase();
  };
  return {
    begin: (key, what) => {
      const before = running.get(key);
      if (before === undefined) running.set(key, { what, sinceMs: nowMs() });
      else before.what = what;
      settle();
    },
    end: (key) => {
      running.delete(key);
      settle();
    },
    clear: () => {
      running.clear();
      settle();
    },
    above: (text) => {
      erase();
      page.write(text);
    },
    hide: () => {
      isHidden = true;
      erase();
      page.hold();
    },
    show: () => {
      isHidden = false;
      page.go();
    },
  };
}

type Page = { write(text: string): void; hold(): void; go(): void };

/** Writes at once, or holds what is written until it may go. */
function openPage(write: (text: string) => void): Page {
  let isHeld = false;
  let held = "";
  return {
    write: (text) => {
      if (isHeld) held += text;
      else write(text);
    },
    hold: () => {
      isHeld = true;
    },
    go: () => {
      isHeld = false;
      if (held !== "") write(held);
      held = "";
    },
  };
}

/** Where there is no terminal, nothing is shown but what is written. */
export function noActivity(write: (text: string) => void): Activity {
  const nothing = (): void => {};
  const { write: above, hold: hide, go: show } = openPage(write);
  return { begin: nothing, end: nothing, clear: nothing, above, hide, show };
}

function lineOf(
  running: readonly { readonly what: string; readonly sinceMs: number }[],
  nowMs: number,
  columnCount: number,
): string {
  const [oldest, ...others] = running;
  if (oldest === undefined || nowMs - oldest.sinceMs < PATIENCE_MS) return "";
  const more = others.length === 0 ? "" : ` and ${others.length} more`;
  const seconds = Math.floor((nowMs - oldest.sinceMs) / 1000);
  const tail = `${more} … ${seconds < 10 ? `${seconds} s` : timeText(seconds * 1000)}`;
  // The last column stays free: a terminal may go to the next line once it is written to.
  return fitted(oldest.what, Math.max(10, columnCount - 1 - tail.length)) + tail;
}
