import { describe, expect, it } from 'vitest'
import { isToolError } from '#kernel/base/errors'
import { headersForOtherOrigin, incomingHeaders, outgoingHeaders } from './bodies.ts'

function faultOf(make: () => unknown) {
  try {
    make()
  } catch (error) {
    if (isToolError(error)) return error.code
    throw error
  }
  return undefined
}

describe('headers that leave', () => {
  it.each([
    { upgrade: 'websocket' },
    { connection: 'Upgrade' },
    { connection: 'keep-alive, UPGRADE' },
    { upgrade: 'h2c', connection: 'upgrade' },
  ])('OWP-81: a wish to upgrade is refused: %j', (given) => {
    expect(faultOf(() => outgoingHeaders(new Headers(given)))).toBe('egress_denied')
  })

  it('nothing for the next hop leaves, nor a host other than the URL’s', () => {
    const given = {
      connection: 'close, x-hop',
      'x-hop': '1',
      host: 'evil.example',
      te: 'trailers',
      'transfer-encoding': 'chunked',
      'proxy-authorization': 'Basic x',
      'content-length': '5',
      'x-kept': '1',
      accept: 'text/plain',
    }
    expect(Object.fromEntries(outgoingHeaders(new Headers(given)))).toEqual({
      accept: 'text/plain',
      'accept-encoding': 'gzip, deflate, br',
      'user-agent': 'collet',
      'x-kept': '1',
    })
  })

  it('rule 33: what may be a credential stays with its origin', () => {
    const given = {
      authorization: 'Bearer x',
      cookie: 'a=b',
      'x-api-key': 'k',
      'x-goog-api-key': 'k',
      accept: 'a/b',
      traceparent: '00',
    }
    expect(Object.fromEntries(headersForOtherOrigin(new Headers(given)))).toEqual({
      accept: 'a/b',
      traceparent: '00',
    })
  })
})

describe('headers that arrive', () => {
  it('keep each cookie, lose what was for the hop, and never throw for text beyond latin1', () => {
    const headers = incomingHeaders({
      'set-cookie': ['a=1', 'b=2'],
      connection: 'close',
      'keep-alive': 'x',
      'x-name': 'жук',
      none: undefined,
    })
    expect(headers.getSetCookie()).toEqual(['a=1', 'b=2'])
    expect([...headers.keys()].sort()).toEqual(['set-cookie', 'set-cookie', 'x-name'])
    expect(Buffer.from(headers.get('x-name') ?? '', 'latin1').toString('utf8')).toBe('жук')
  })
})
