import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeRequirements, encodeRequirements } from './call-wire.ts'

const TEXT = fc.string({ unit: 'binary', minLength: 1 }).filter((text) => text.isWellFormed())
const PAIRS = fc.dictionary(TEXT, TEXT).map((pairs) => ({ ...pairs }))

function revealed(given: ReadonlyMap<string, { reveal(): string }>): Record<string, string> {
  return Object.fromEntries([...given].map(([id, secret]) => [id, secret.reveal()]))
}

describe('requirement headers', () => {
  it('encode any id and any text in header-safe characters, and decode them unchanged', () => {
    fc.assert(
      fc.property(PAIRS, PAIRS, fc.option(TEXT, { nil: undefined }), (tokens, secrets, userId) => {
        fc.pre(userId?.includes('\0') !== true)
        const headers = encodeRequirements({ tokens, secrets, userId })
        for (const value of Object.values(headers)) expect(value).toMatch(/^[\x20-\x7e]*$/)
        const read = decodeRequirements(headers)
        expect(revealed(read.tokens)).toEqual(tokens)
        expect(revealed(read.secrets)).toEqual(secrets)
        // A user id of only white space is valid, and percent-encoded.
        expect(read.userId).toBe(userId)
      }),
    )
  })

  it('refuse a user with NUL, which no store accepts', () => {
    expect(() => decodeRequirements(encodeRequirements({ userId: 'a\0b' }))).toThrow('without NUL')
  })

  it('never print their values', () => {
    const { secrets } = decodeRequirements(encodeRequirements({ secrets: { pin: 'hunter2' } }))
    expect(`${secrets.get('pin')} ${JSON.stringify([...secrets])}`).not.toContain('hunter2')
  })

  it('read both alphabets of base64', () => {
    for (const text of ['_-8', '/+8', '/+8=']) {
      expect(() => decodeRequirements({ 'collet-secret': `a=${text}` })).toThrow('base64url')
    }
    const standard = Buffer.from('ÿ?>ÿ').toString('base64')
    expect(standard).toMatch(/[+/]/)
    expect(
      decodeRequirements({ 'collet-secret': `a=${standard}` })
        .secrets.get('a')
        ?.reveal(),
    ).toBe('ÿ?>ÿ')
  })
})
