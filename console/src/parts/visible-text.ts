/** Control characters, everything that reorders text or is not seen in it (tags, fillers, selectors), and line separators. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu

/**
 * Text that others chose, for somebody who decides on what it says: a character that hides or turns text is spelled out
 * (`\u202e`). Line breaks stay: a page shows them.
 */
export function visibleText(text: string): string {
  return text.replace(UNSEEN, (character) => (character === '\n' ? character : spelled(character)))
}

/** The same as JSON: still the same value to who parses it. */
export function visibleJson(value: unknown): string {
  return visibleText(JSON.stringify(value, undefined, 2) ?? String(value))
}

function spelled(character: string): string {
  return character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')
}
