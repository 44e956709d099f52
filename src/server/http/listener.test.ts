import { describe, expect, it } from 'vitest'
import { listenError } from './listener.ts'

const settings = {
  host: '127.0.0.1',
  port: 4100,
  publicUrl: undefined,
  bodyLimitBytes: 1,
  allowedOrigins: [],
  maxConnections: 10_000,
}
const explanationOf = (code?: string) =>
  listenError(settings, Object.assign(new Error('x'), code === undefined ? {} : { code })).message

describe('listenError', () => {
  it.each([
    ['EADDRINUSE', /Port 4100 on 127\.0\.0\.1 is already in use.*--port/],
    ['EACCES', /Port 4100 may not be used.*--port/],
    ['EADDRNOTAVAIL', /"127\.0\.0\.1" is not an address of this machine.*--host/],
    [undefined, /Cannot listen on 127\.0\.0\.1, port 4100/],
  ])('names the remedy for %s', (code, text) => {
    expect(explanationOf(code)).toMatch(text)
  })
})
