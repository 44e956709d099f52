/** What is in a text that a reader does not see, or sees as something else; names what it is, `undefined` = nothing. */
export function hiddenCharacter(text: string): string | undefined {
  if (PLAIN.test(text)) return undefined
  for (const { pattern, says } of HIDDEN) {
    const found = pattern.exec(text)
    if (found !== null) return `${says} (${codePoint(found[0])})`
  }
  const isOneWay = !/[\p{Script=Arabic}\p{Script=Hebrew}]/u.test(text)
  return isOneWay && /[\u200E\u200F]/.test(text)
    ? 'has marks of text direction and no text that needs them'
    : undefined
}

/** Most texts: visible ASCII and white space. */
const PLAIN = /^[\t\n\r\x20-\x7e]*$/

/** A tag sequence is how the flags of England, Scotland and Wales are written. */
const HIDDEN: readonly { readonly pattern: RegExp; readonly says: string }[] = [
  {
    pattern: /(?<!\u{1F3F4}[\u{E0061}-\u{E007A}]{0,6})[\u{E0000}-\u{E007F}]/u,
    says: 'has invisible tag characters, which models read',
  },
  {
    pattern: /[\u{E0100}-\u{E01EF}]|[\u{FE00}-\u{FE0F}]{2}/u,
    says: 'has variation selectors that can carry hidden data',
  },
  { pattern: /[\u202A-\u202E\u2066-\u2069]/, says: 'has characters that reverse the direction of text' },
  {
    pattern: /\u034F|[\u200B\u2060-\u2064\uFEFF\u180E\u115F\u1160\u3164\uFFA0\u00AD]/,
    says: 'has characters of no width',
  },
  // Between letters of scripts that join, and in emoji, these two are spelling.
  {
    pattern: /(?:^|[\x20-\x7e\s])(?:\u200C|\u200D)|(?:\u200C|\u200D)(?:$|[\x20-\x7e\s])/u,
    says: 'has joiners of no width where nothing joins',
  },
  // biome-ignore lint/suspicious/noControlCharactersInRegex: looking for them
  { pattern: /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]/, says: 'has control characters' },
  { pattern: /[\u{E000}-\u{F8FF}\u{F0000}-\u{10FFFD}]/u, says: 'has characters of private use' },
  { pattern: /[\uFFF9-\uFFFB]/, says: 'has characters that hide annotations' },
]

/** A word that looks Latin and is not all Latin; `undefined` = there is none. */
export function mixedWord(text: string): string | undefined {
  if (PLAIN.test(text)) return undefined
  for (const [word] of text.matchAll(/[\p{L}\p{M}\p{N}_]+/gu)) {
    const isMixed = /\p{Script=Latin}/u.test(word) && LOOKALIKE.test(word)
    if (isMixed || STYLED.test(word)) return word
  }
  return undefined
}

/** Cyrillic, and the Greek letters that look like Latin ones; µ, π and their like are signs of their own. */
const LOOKALIKE =
  /[\p{Script=Cyrillic}\u0391\u0392\u0395-\u0397\u0399\u039A\u039C\u039D\u039F\u03A1\u03A4\u03A5\u03A7\u03BF\u03BD\u03C1\u03F2]/u
/** Two or more letters of the mathematical or full-width alphabets: a word that searches do not find. */
const STYLED = /[\u{1D400}-\u{1D7FF}]{2}|[\uFF21-\uFF3A\uFF41-\uFF5A]{2}/u

function codePoint(found: string): string {
  const hidden = [...found].find((character) => !PLAIN.test(character)) ?? found
  return `U+${(hidden.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`
}
