/** Control characters, the invisible marks that reorder or hide text, and line separators. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/**
 * Text that others chose (tool texts, call ids, server messages), made safe to print: a terminal would obey
 * escape sequences in it.
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
