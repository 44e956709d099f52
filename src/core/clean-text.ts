/** Control characters, everything that reorders text or is not seen in it (tags, fillers, selectors), and line separators. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu

/**
 * Text that others chose (tool texts, call ids, server messages), made safe to show: a terminal would obey
 * escape sequences in it, and a page would turn it around or hide a part.
 */
export function cleanText(text: string): string {
  return text.replace(UNPRINTABLE, (character) =>
    character === '\n' || character === '\t' ? ' ' : escaped(character),
  )
}

/** JSON with the same characters escaped: still the same value to a JSON parser. */
export function cleanJson(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, undefined, indent) ?? 'null'
  return text.replace(UNPRINTABLE, (character) => (character === '\n' ? character : escaped(character)))
}

function escaped(character: string): string {
  return character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')
}
