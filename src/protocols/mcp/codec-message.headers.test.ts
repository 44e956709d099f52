import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeHeaderValue, isNewVersionHeader } from './codec-message.ts'

describe('headers of the newest revision', () => {
  it('MCP-35: every text comes back from its base64 form', () => {
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
    'MCP-35: %s is no text',
    (value) => {
      expect(decodeHeaderValue(value)).toBeUndefined()
    },
  )

  it.each(['SGVsbG8=', '=?base64?SGVsbG8=', 'SGVsbG8=?=', '=?utf8?x?='])('MCP-35: %s is itself', (value) => {
    expect(decodeHeaderValue(value)).toBe(value)
  })

  it('T-9: later dates are new, everything else is not', () => {
    expect(['2026-07-28', '2099-01-01'].every(isNewVersionHeader)).toBe(true)
    expect(['2025-11-25', 'v999', '2026-07-28x', '', undefined].some(isNewVersionHeader)).toBe(false)
  })
})
