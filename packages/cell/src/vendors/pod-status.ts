import { type Fault, fault } from "@dev/protocol";
import type { V1ContainerStatus, V1Pod } from "@kubernetes/client-node";

/** Of what a dead container had to say, as much is told. */
const WORDS_LIMIT = 1000;

export function isEnding({ metadata }: V1Pod): boolean {
  return metadata?.deletionTimestamp !== undefined;
}

/** Whether it will never run again. */
export function isEnded({ status }: V1Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/**
 * Why a pod is of no use now, as the cluster has it: `unavailable` whatever it is, since the next start may be
 * on a node that has room, or an image.
 */
export function describePods(pods: readonly V1Pod[], name: string): Fault {
  const [pod] = pods;
  if (pod === undefined) return fault("unavailable", "there is no pod of the cell", name, MEND);
  const { conditions = [], containerStatuses = [], message, phase, reason } = pod.status ?? {};
  const unscheduled = conditions.find(
    ({ type, status }) => type === "PodScheduled" && status === "False",
  );
  const words = [
    `the pod is ${phase ?? "unknown"}`,
    ...[reason, message],
    ...[unscheduled?.reason, unscheduled?.message],
    ...containerStatuses.flatMap(wordsOf),
  ];
  const text = words.filter((word) => word !== undefined && word !== "").join(": ");
  return fault("unavailable", text.slice(0, WORDS_LIMIT), name, MEND);
}

const MEND = "look at the pod with `kubectl describe`, and ask again";

function wordsOf({ state }: V1ContainerStatus): readonly (string | undefined)[] {
  const { terminated, waiting } = state ?? {};
  const exit = terminated === undefined ? undefined : `its agent ended with ${terminated.exitCode}`;
  return [waiting?.reason, waiting?.message, exit, terminated?.reason, terminated?.message];
}
