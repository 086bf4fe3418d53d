import {
  type Action,
  actionId,
  agentId,
  decodeAction,
  encodeAction,
  encodeFrame,
  eventFromJson,
  FrameReader,
  turnId,
} from "@dev/protocol";

/** An action goes over a stream, and an event comes in as JSON that lacks a field. */
export function example(): readonly string[] {
  const action: Action = {
    id: actionId(7),
    agent: agentId(0),
    turn: turnId(1),
    op: { kind: "git", argv: ["status", "--short"] },
  };
  const stream = encodeFrame(encodeAction(action));

  const said: string[] = [];
  const reader = new FrameReader();
  for (const chunk of [stream.subarray(0, 10), stream.subarray(10)]) {
    for (const message of reader.push(chunk)) {
      const read = message.ok ? decodeAction(message.value) : message;
      said.push(read.ok ? `action ${read.value.id}: ${read.value.op.kind}` : read.fault.message);
    }
  }

  const event = eventFromJson({ kind: "cancel" });
  if (!event.ok) said.push(event.fault.message);
  return said;
}
