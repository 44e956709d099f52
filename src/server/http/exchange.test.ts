import { describe, expect, it } from 'vitest'
import { CALL_ID_HEADER, ERROR_CODE_HEADER } from '#protocols/call-wire'
import { corsHeaders } from './exchange.ts'

describe('corsHeaders', () => {
  it('lets a client in a browser read every header that it uses', () => {
    const readable = corsHeaders('https://app.example').at(-1)?.split(', ')
    expect(readable).toEqual(
      expect.arrayContaining([CALL_ID_HEADER, ERROR_CODE_HEADER, 'retry-after', 'x-should-retry']),
    )
  })
})
