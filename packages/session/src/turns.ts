import type { Image, Mode, TurnEvent, TurnId } from "@dev/protocol";
import { turnId } from "@dev/protocol";

export type Prompt = {
  readonly text: string;
  readonly images: readonly Image[];
  /** Null: that of the session's last turn, and `firstMode` where it has had none. */
  readonly mode: Mode | null;
  readonly firstMode: Mode;
};

/** The turns that a session has had, and how each was asked to be run. */
export class Turns {
  readonly #modes: Map<TurnId, Mode>;
  #last: number;

  constructor(modes: ReadonlyMap<TurnId, Mode>) {
    this.#modes = new Map(modes);
    this.#last = Math.max(0, ...modes.keys());
  }

  take({ id, mode }: TurnEvent): void {
    this.#modes.set(id, mode);
    this.#last = Math.max(this.#last, id);
  }

  /** A turn that nobody knows reads, and no more. */
  modeOf(turn: TurnId): Mode {
    return this.#modes.get(turn) ?? "plan";
  }

  /** A prompt as the next turn. */
  next({ text, images, mode, firstMode }: Prompt): TurnEvent {
    const asBefore = this.#modes.get(turnId(this.#last)) ?? firstMode;
    return {
      kind: "turn",
      id: turnId(this.#last + 1),
      prompt: text,
      images,
      mode: mode ?? asBefore,
    };
  }
}
