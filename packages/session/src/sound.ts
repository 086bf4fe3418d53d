import { wellFormed } from "@dev/protocol";

/**
 * A value in which every text can be written as UTF-8: a half of a surrogate pair, which JSON can hold,
 * becomes U+FFFD. An event is made sound before the core sees it, so that a replay of what was stored
 * sees just the same. What is sound already is returned as it is.
 */
export function sound<T>(value: T): T {
  if (typeof value === "string") return wellFormed(value) as T;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    const parts = value.map((part: unknown) => sound(part));
    return parts.every((part, index) => part === value[index]) ? value : (parts as T);
  }
  const entries = Object.entries(value).map(([key, part]) => [key, sound(part)] as const);
  const whole = value as Readonly<Record<string, unknown>>;
  return entries.every(([key, part]) => part === whole[key])
    ? value
    : (Object.fromEntries(entries) as T);
}
