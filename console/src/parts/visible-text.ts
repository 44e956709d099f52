/** Control characters, characters that reorder or hide text (tags, fillers, selectors), and line separators. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu

/**
 * Untrusted text for a person who decides on it: a character that hides or reorders text is spelled out (`\u202e`). Line breaks
 * are kept.
 */
export function visibleText(text: string): string {
  return text.replace(UNSEEN, (character) => (character === '\n' ? character : spelled(character)))
}

/** A value as JSON with those characters escaped; it still parses to the same value. */
export function visibleJson(value: unknown): string {
  return visibleText(JSON.stringify(value, undefined, 2) ?? String(value))
}

function spelled(character: string): string {
  return character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')
}
