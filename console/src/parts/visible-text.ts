/*
 * Makes untrusted text safe to read: characters that hide or reorder text are shown as escapes. Used by several pages.
 */

/** Control characters, characters that reorder or hide text (tags, fillers, selectors), and line separators. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu

/** Shows a character that hides or reorders text as its escape (`\u202e`). Line breaks are kept. */
export function visibleText(text: string): string {
  return text.replace(INVISIBLE, (character) => (character === '\n' ? character : escaped(character)))
}

/** A value as JSON with invisible characters escaped. It still parses to the same value. */
export function visibleJson(value: unknown): string {
  return visibleText(JSON.stringify(value, undefined, 2) ?? String(value))
}

function escaped(character: string): string {
  return character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')
}
