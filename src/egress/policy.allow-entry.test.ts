import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseAddress } from './addresses.ts'
import { isAllowedBy, parseAllowEntry } from './policy.ts'

function allows(
  entry: string,
  address: string,
  target: { readonly host?: string; readonly port?: number } = {},
) {
  const parsed = parseAllowEntry(entry)
  const bytes = parseAddress(address)
  if (!parsed.ok || bytes === undefined) throw new Error(`${entry} or ${address} cannot be read`)
  return isAllowedBy(parsed.entry, bytes, { host: target.host ?? address, port: target.port ?? 80 })
}

describe('an entry of the allow-list', () => {
  it('allows an address on every port, or on one', () => {
    expect(allows('127.0.0.1', '127.0.0.1', { port: 9000 })).toBe(true)
    expect(allows('127.0.0.1:9000', '127.0.0.1', { port: 9000 })).toBe(true)
    expect(allows('127.0.0.1:9000', '127.0.0.1', { port: 9001 })).toBe(false)
    expect(allows('127.0.0.1:80', '127.0.0.1', { port: 443 })).toBe(false)
    expect(allows('127.0.0.1', '127.0.0.2')).toBe(false)
    expect(allows('::1', '::1')).toBe(true)
    expect(allows('[::1]:9000', '0:0:0:0:0:0:0:1', { port: 9000 })).toBe(true)
  })

  it('allows a range', () => {
    expect(allows('10.1.0.0/16', '10.1.255.1')).toBe(true)
    expect(allows('10.1.0.0/16', '10.2.0.1')).toBe(false)
    expect(allows('fd00:1::/32', 'fd00:1::9')).toBe(true)
  })

  it('allows a name, and no subdomain or similar name', () => {
    expect(allows('CRM.internal.', '10.0.0.1', { host: 'crm.internal' })).toBe(true)
    expect(allows('crm.internal:8080', '10.0.0.1', { host: 'crm.internal', port: 80 })).toBe(false)
    expect(allows('crm.internal', '10.0.0.1', { host: 'a.crm.internal' })).toBe(false)
    expect(allows('crm.internal', '10.0.0.1', { host: 'crm.internal.evil.example' })).toBe(false)
  })

  it.each([
    ['', 'expected a host name'],
    ['*', 'expected a host name'],
    ['*.internal', 'expected a host name'],
    ['http://crm.internal', 'expected a range'],
    ['crm.internal:0', 'expected a host name'],
    ['crm.internal:65536', 'expected a host name'],
    ['user@crm.internal', 'expected a host name'],
    ['crm internal', 'expected a host name'],
    ['fe80::1%eth0', 'expected a host name'],
    ['10.0.0.1/8', 'without bits after its prefix'],
    ['0.0.0.0/0', 'would allow every address'],
    ['::/0', 'would allow every address'],
    ['127.1', 'is an unusual spelling of 127.0.0.1'],
    ['0x7f000001', 'is an unusual spelling of 127.0.0.1'],
    ['169.254.169.254', 'has the kind "metadata", which is never allowed'],
    ['0.0.0.0', 'has the kind "unspecified"'],
    ['[::ffff:127.0.0.1]:80', 'has the kind "translated"'],
  ])('%j is refused: %s', (text, problem) => {
    expect(parseAllowEntry(text)).toEqual({ ok: false, problem: expect.stringContaining(problem) })
  })

  it('never throws', () => {
    fc.assert(fc.property(fc.string(), (text) => void parseAllowEntry(text)))
  })
})
