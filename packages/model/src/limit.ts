/** What an ask may take, in time and in bytes. Reaching one is a fault that says which. */
export type RouterLimits = {
  /** Tries of one ask, the first included. */
  readonly attemptCount: number;
  /** What tries that came to nothing may cost in waiting: their backoff and their silence. */
  readonly retryTotalMs: number;
  /** The wait before the second try; it doubles with each further one. */
  readonly backoffMs: number;
  readonly backoffLimitMs: number;
  /** A provider that asks for a longer wait than this is not asked again. */
  readonly retryAfterLimitMs: number;
  /** Until a provider's first byte: it may have to read a long prompt. */
  readonly firstByteMs: number;
  /** Between two bytes of a reply. */
  readonly idleMs: number;
  /** One try, from its request to the end of its reply. */
  readonly replyMs: number;
  /** From the reply's end to the end of its stream, where the usage comes. */
  readonly drainMs: number;
  readonly requestBytes: number;
  /** All that a provider sends for one try. */
  readonly responseBytes: number;
  /** One event of a stream. */
  readonly eventBytes: number;
  /** The text, reasoning and arguments of a reply together: it must fit an event of the core. */
  readonly replyBytes: number;
  /** A reply's `opaque`. Past it the reply goes without: its reasoning is not carried into the next ask. */
  readonly opaqueBytes: number;
  /** Of the body of a refusal, what is read. */
  readonly refusalBytes: number;
  /** Far past the core's own limit, which is the one that a person sets. */
  readonly callCount: number;
  /** Connections to one provider at a time. */
  readonly connectionCount: number;
};

export const ROUTER_LIMITS: RouterLimits = {
  attemptCount: 4,
  retryTotalMs: 360_000,
  backoffMs: 500,
  backoffLimitMs: 8_000,
  retryAfterLimitMs: 60_000,
  firstByteMs: 180_000,
  idleMs: 90_000,
  replyMs: 1_800_000,
  drainMs: 5_000,
  requestBytes: 64 * 1024 * 1024,
  responseBytes: 64 * 1024 * 1024,
  eventBytes: 16 * 1024 * 1024,
  replyBytes: 4 * 1024 * 1024,
  opaqueBytes: 1024 * 1024,
  refusalBytes: 64 * 1024,
  callCount: 1024,
  connectionCount: 64,
};
