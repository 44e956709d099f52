import { networkInterfaces } from 'node:os'
import { describe, expect, it } from 'vitest'
import { type EgressPolicy, findRefusal, readPolicy } from './policy.ts'

function judge(address: string, port: number, policy: EgressPolicy = {}, host = address) {
  return findRefusal(address, { host, port }, readPolicy({ lookup: async () => [], ...policy }))
}

describe('findRefusal', () => {
  it('OWP-80: allows public addresses and no local ones', () => {
    expect(judge('8.8.8.8', 443)).toBeUndefined()
    expect(judge('127.0.0.1', 443)).toBe(
      "its address is loopback. To allow it, write in the config: egress: { allow: ['127.0.0.1:443'] }",
    )
    expect(judge('not an address', 443)).toBe('the resolver returned something that is not an address')
  })

  it('a range allows neither metadata services nor unspecified or multicast addresses', () => {
    const allow = ['169.254.0.0/16', '0.0.0.0/1', '128.0.0.0/1', '::/1', '8000::/1', 'name.example']
    for (const address of [
      '169.254.169.254',
      '0.0.0.0',
      '224.0.0.1',
      '::',
      '::ffff:10.0.0.1',
      'ff02::1',
      'fd00:ec2::254',
    ])
      expect(judge(address, 80, { allow }, 'name.example')).toMatch(/^its address is /)
    expect(judge('169.254.1.1', 80, { allow })).toBeUndefined()
  })

  it('rule 33: our own listeners are refused on every address of this machine, even with an allow-list', () => {
    const own = Object.values(networkInterfaces()).flatMap((parts) =>
      (parts ?? []).map(({ address }) => address),
    )
    for (const host of ['127.0.0.1', '0.0.0.0', '::', 'localhost']) {
      const policy: EgressPolicy = {
        allow: ['0.0.0.0/1', '128.0.0.0/1', '::/1', '8000::/1'],
        ownListeners: () => [{ host, port: 4100 }],
      }
      for (const address of ['127.0.0.1', '127.8.8.8', '::1', ...own]) {
        expect(judge(address, 4100, policy)).toBe('it is a listener of this server')
      }
      expect(judge('127.0.0.1', 4101, policy)).toBeUndefined()
    }
    const away: EgressPolicy = { ownListeners: () => [{ host: '8.8.8.8', port: 443 }] }
    expect(judge('8.8.8.8', 443, away)).toBe('it is a listener of this server')
    expect(judge('8.8.4.4', 443, away)).toBeUndefined()
  })

  it('ports of other protocols are refused unless an entry names the port', () => {
    expect(judge('8.8.8.8', 25)).toMatch(/^port 25 belongs to another protocol\. To allow it, /)
    expect(judge('127.0.0.1', 25, { allow: ['127.0.0.1'] })).toMatch(
      /^port 25 belongs to another protocol\. To allow it, /,
    )
    expect(judge('127.0.0.1', 25, { allow: ['127.0.0.1:25'] })).toBeUndefined()
  })

  it('an allow-list with an invalid entry is refused', () => {
    expect(() => readPolicy({ allow: ['127.0.0.1', 'not/one'] })).toThrow(/egress\.allow: "not\/one"/)
  })
})
