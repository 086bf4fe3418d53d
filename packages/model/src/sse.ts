import { createParser } from "eventsource-parser";

/** Reads server-sent events as their bytes arrive (HTML Living Standard, section 9.2). */
export type EventReader = {
  /** Takes the next bytes, however they are cut; false once an event is longer than its limit. */
  readonly push: (chunk: Uint8Array) => boolean;
  /** Says that the stream has ended as it should: what ends its last line is whole. */
  readonly end: () => void;
};

/**
 * Calls `onData` with the data of each event that is whole. One that has no blank line behind it when
 * the stream ends was cut, and is never told. `limitBytes` bounds what is held of one event, its data
 * and the line that is being read (counted in UTF-16 units, which are never more than the bytes).
 */
export function openEventReader(limitBytes: number, onData: (data: string) => void): EventReader {
  const decoder = new TextDecoder();
  let within = true;
  let last = "";
  const parser = createParser({
    maxBufferSize: limitBytes,
    onEvent({ data }) {
      // The parser's own limit does not see an event that comes in one chunk.
      if (data.length > limitBytes) within = false;
      if (within) onData(data);
    },
    onError: (error) => {
      // An unknown field or a bad `retry` is to be ignored, says the standard.
      if (error.type === "max-buffer-size-exceeded") within = false;
    },
  });
  return {
    push(chunk) {
      if (!within) return false;
      const text = decoder.decode(chunk, { stream: true });
      last = text.at(-1) ?? last;
      parser.feed(text);
      return within;
    },
    end() {
      // A carriage return may end a line, or be half of what does: the parser waits for the other half.
      if (within && last === "\r") parser.feed("\n");
    },
  };
}
