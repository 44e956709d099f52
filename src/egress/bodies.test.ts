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

describe('request headers', () => {
  it.each([
    { upgrade: 'websocket' },
    { connection: 'Upgrade' },
    { connection: 'keep-alive, UPGRADE' },
    { upgrade: 'h2c', connection: 'upgrade' },
  ])('OWP-81: are refused if they ask for an upgrade: %j', (given) => {
    expect(faultOf(() => outgoingHeaders(new Headers(given)))).toBe('egress_denied')
  })

  it('are sent without hop-by-hop headers and without a host other than that of the URL', () => {
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

  it('rule 33: are sent to another origin without possible credentials', () => {
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

describe('response headers', () => {
  it('keep each cookie, lose hop-by-hop headers, and never throw for text beyond latin1', () => {
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
