// Where the right candidates come, as a row of a table.
const WITHIN = [100, 300, 700, 1_500];

export const placesHead = `kind              cases  made  median   p75   p90  within ${WITHIN.join(" / ")}`;

/** `places` has -1 where the right candidate is not made; shares are of those that are. */
export function placesRow(kind, places) {
  const made = places.filter((at) => at >= 0).sort((a, b) => a - b);
  const at = (share) => String(made[Math.floor(share * (made.length - 1))] ?? "-");
  const within = WITHIN.map((most) => made.filter((place) => place < most).length / made.length);
  const shares = within.map((share) => `${Math.round(100 * share)} %`).join(" / ");
  const counts = `${String(places.length).padStart(5)} ${String(made.length).padStart(5)}`;
  const marks = [0.5, 0.75, 0.9].map(at).map((text) => text.padStart(6));
  return `${kind.padEnd(18)}${counts}  ${marks.join("")}  ${shares}`;
}
