/** What is shown of a text that a provider sent, in UTF-16 units. */
const SHOWN_LIMIT = 300;

/**
 * A text from outside, made fit to be shown: the key is taken out in every form in which it could be
 * echoed, then what controls a terminal or hides text, then all that is too long.
 */
export function display(text: string, key: string | null): string {
  const clean = withoutKey(text, key)
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Surrogate}]+/gu, " ")
    .trim();
  return clean.length > SHOWN_LIMIT ? `${clean.slice(0, SHOWN_LIMIT)}…` : clean;
}

function withoutKey(text: string, key: string | null): string {
  if (key === null || key === "") return text;
  const forms = [
    key,
    JSON.stringify(key).slice(1, -1),
    encodeURIComponent(key),
    Buffer.from(key).toString("base64"),
  ];
  return forms.reduce((rest, form) => rest.replaceAll(form, "[key]"), text);
}
