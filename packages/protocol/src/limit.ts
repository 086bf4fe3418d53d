/** Limits of the protocol. Each is named, and reaching it is a fault that says which. */

/** A frame on a stream: a length prefix and one message. */
export const FRAME_LIMIT_BYTES: number = 64 * 1024 * 1024;
/** An event, as it is stepped into the core. */
export const EVENT_LIMIT_BYTES: number = 8 * 1024 * 1024;
/** How deep messages may nest. */
export const NESTING_LIMIT: number = 64;
