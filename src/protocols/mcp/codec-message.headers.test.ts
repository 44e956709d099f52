import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeHeaderValue, isNewVersionHeader } from './codec-message.ts'

describe('headers of the newest revision', () => {
  it('MCP-35: every text is decoded from its base64 form unchanged', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed()),
        (text) => {
          const encoded = `=?base64?${Buffer.from(text).toString('base64')}?=`
          expect(decodeHeaderValue(encoded)).toBe(text)
        },
      ),
    )
  })

  it.each(['=?base64?SGVsbG8?=', '=?base64?SGVs!!!bG8=?=', '=?base64?/w==?='])(
    'MCP-35: %s cannot be decoded',
    (value) => {
      expect(decodeHeaderValue(value)).toBeUndefined()
    },
  )

  it.each(['SGVsbG8=', '=?base64?SGVsbG8=', 'SGVsbG8=?=', '=?utf8?x?='])(
    'MCP-35: %s is not decoded',
    (value) => {
      expect(decodeHeaderValue(value)).toBe(value)
    },
  )

  it('MCP/T-9: later dates count as new versions, other texts do not', () => {
    expect(['2026-07-28', '2099-01-01'].every(isNewVersionHeader)).toBe(true)
    expect(['2025-11-25', 'v999', '2026-07-28x', '', undefined].some(isNewVersionHeader)).toBe(false)
  })
})
