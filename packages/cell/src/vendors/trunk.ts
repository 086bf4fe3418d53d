import type { Duplex } from "node:stream";
import { decodeRequest, decodeResponse, type Fault, FrameReader, fault } from "@dev/protocol";
import { type ChannelKind, Channels, type OpenChannel, type TakeChannel } from "../channel.ts";
import { METHODS, requestFrame, responseFrame, STATUSES } from "../wire.ts";

/** A link to a vendor on another machine: it has channels, and nothing else. */
export type Trunk = {
  readonly open: OpenChannel;
  /** Resolves when it is lost, with why. */
  readonly lost: Promise<Fault>;
};

/** Makes one end of a trunk of a stream; its frames are those of a link. Garbage ends it. */
export function openTrunk(
  stream: Duplex,
  side: "host" | "agent",
  serve: (kind: ChannelKind) => TakeChannel | undefined,
): Trunk {
  const reader = new FrameReader();
  let settle: (why: Fault) => void = () => undefined;
  const lost = new Promise<Fault>((resolve) => {
    settle = resolve;
  });
  const lose = (message: string): void => {
    const why = fault("link_lost", message, "the link to the vendor", "try again");
    channels.lose(why);
    settle(why);
    stream.destroy();
  };
  const channels: Channels = new Channels(
    {
      send: (channel, message) => {
        if (stream.destroyed || !stream.writable) return;
        const frame =
          side === "host"
            ? requestFrame(METHODS.channel, channel, message)
            : responseFrame(STATUSES.channel, channel, message);
        stream.write(frame, () => channels.pump());
      },
      waitingBytes: () => stream.writableLength,
      serve,
    },
    side,
  );
  stream.on("data", (chunk: Uint8Array) => {
    for (const frame of reader.push(chunk)) {
      const message = frame.ok ? messageOf(frame.value, side) : undefined;
      const taken = message && channels.take(message.channel, message.bytes);
      if (!taken?.ok) return lose(`the link is garbled: ${taken?.fault.message ?? "no message"}`);
    }
  });
  stream.on("error", (error) => lose(`the link broke: ${error.message}`));
  stream.on("end", () => lose("the other end has ended the link"));
  stream.on("close", () => lose("the link was closed"));
  if (stream.destroyed) lose("the link was closed");
  return { open: (kind, payload, signal) => channels.open(kind, payload, signal), lost };
}

type Message = { readonly channel: number; readonly bytes: Uint8Array };

function messageOf(bytes: Uint8Array, side: "host" | "agent"): Message | undefined {
  if (side === "agent") {
    const request = decodeRequest(bytes);
    if (!request.ok || request.value.method !== METHODS.channel) return undefined;
    return { channel: request.value.promise, bytes: request.value.payload };
  }
  const response = decodeResponse(bytes);
  if (!response.ok || response.value.status !== STATUSES.channel) return undefined;
  return { channel: response.value.promise, bytes: response.value.body };
}
