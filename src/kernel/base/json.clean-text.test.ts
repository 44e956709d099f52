import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cleanJson, cleanText } from './json.ts'

const DANGEROUS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

describe('cleanText', () => {
  it('escapes escape sequences', () => {
    expect(cleanText('\u001b[31mred\u009b2J\u202etxt')).toBe('\\u001b[31mred\\u009b2J\\u202etxt')
    expect(cleanText('two\nlines\tand a tab')).toBe('two lines and a tab')
  })

  it('leaves no character that a terminal interprets', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 20 }), (text) => {
        expect(DANGEROUS.test(cleanText(text))).toBe(false)
      }),
    )
  })
})

describe('cleanJson', () => {
  it('still parses to an equal value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(undefined, 2), (value, indent) => {
        const text = cleanJson(value, indent)
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
        expect(DANGEROUS.test(text.replaceAll('\n', ''))).toBe(false)
      }),
    )
    expect(JSON.parse(cleanJson('\u{e0041}\u202e'))).toBe('\u{e0041}\u202e')
  })
})
