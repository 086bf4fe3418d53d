/** Half of a surrogate pair has no UTF-8, and a provider that chokes on it chokes on it for ever. */
export function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\uFFFD");
}
