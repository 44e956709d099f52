const LATIN1_ABOVE_ASCII = /[\x80-\xff]/

/** Header bytes arrive as Latin-1; what is valid UTF-8 was meant as such, so that one id has one spelling. */
export function headerText(value: string): string {
  if (!LATIN1_ABOVE_ASCII.test(value)) return value
  try {
    const bytes = Uint8Array.from(value, (character) => character.charCodeAt(0))
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return value
  }
}
