import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { findSyntaxError } from './codec-document-read.ts'

describe('OTS-01: the position of a syntax error', () => {
  it.each([
    ['{"a":x}', 5],
    ['{"a":1,}', 7],
    ['[1,2', 4],
    ['[1 2]', 3],
    ['{"a" 1}', 5],
    ['{a:1}', 1],
    ['"a\nb"', 2],
    ['{"a":"\\x"}', 6],
    ['', 0],
    [' nul', 1],
    ['{"a":01}', 5],
    ['{"a":-}', 5],
    ['[1,]', 3],
    ['{}}', 2],
    ['[}', 1],
    ['1,2', 1],
    ['{"a":1 "b":2}', 7],
    ['{1:2}', 1],
  ])('%j: %i', (text, offset) => {
    expect(() => JSON.parse(text)).toThrow()
    expect(findSyntaxError(text)).toBe(offset)
  })

  it('is the end or the start of the last token in a truncated text', () => {
    fc.assert(
      fc.property(fc.json(), fc.nat(), (text, at) => {
        const cut = text.slice(0, at % text.length)
        if (isJson(cut)) return
        const offset = findSyntaxError(cut)
        expect(offset === cut.length || /^[-\w.+]*$/.test(cut.slice(offset)) || cut[offset] === '\\').toBe(
          true,
        )
      }),
    )
  })

  it('is that of an inserted control character', () => {
    fc.assert(
      fc.property(fc.json(), fc.nat(), (text, at) => {
        const index = at % (text.length + 1)
        const broken = `${text.slice(0, index)}\u0001${text.slice(index)}`
        const offset = findSyntaxError(broken)
        expect(offset).toBeLessThanOrEqual(index)
        // Inside a number or a word, or after a backslash, the whole token is invalid.
        expect(broken.slice(offset, index)).toMatch(/^[-\w.+\\]*$/)
      }),
    )
  })
})

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
