import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type IpAddress, isInRange, isSameAddress, parseAddress, parseRange, rangeOf } from './addresses.ts'

const ipv4Bytes = fc.uint8Array({ minLength: 4, maxLength: 4 })
const ipv6Bytes = fc.uint8Array({ minLength: 16, maxLength: 16 })

function hextets(bytes: Uint8Array): readonly string[] {
  return Array.from({ length: 8 }, (_, index) =>
    (((bytes[index * 2] ?? 0) << 8) | (bytes[index * 2 + 1] ?? 0)).toString(16),
  )
}

function addressOf(text: string): IpAddress {
  const address = parseAddress(text)
  if (address === undefined) throw new Error(`${text} is not an address`)
  return address
}

describe('parseAddress', () => {
  it('reads every IPv4 address back', () => {
    fc.assert(
      fc.property(ipv4Bytes, (bytes) => {
        expect(parseAddress(bytes.join('.'))?.address).toBe(bytes.join('.'))
      }),
    )
  })

  it('reads every IPv6 address back: in full, in capitals, shortened by the URL parser, with a dotted end', () => {
    fc.assert(
      fc.property(ipv6Bytes, (bytes) => {
        const full = hextets(bytes).join(':')
        const dotted = `${hextets(bytes).slice(0, 6).join(':')}:${bytes.subarray(12).join('.')}`
        const short = new URL(`http://[${full}]/`).hostname.slice(1, -1)
        for (const text of [full, full.toUpperCase(), short, dotted]) {
          const { address } = addressOf(text)
          expect(new URL(`http://[${address}]/`).hostname.slice(1, -1)).toBe(short)
        }
      }),
    )
  })

  it('ignores the zone', () => {
    expect(parseAddress('fe80::1%eth0')?.address).toBe('fe80::1')
  })

  it.each([
    '',
    'localhost',
    '127.1',
    '0177.0.0.1',
    '0x7f.0.0.1',
    '2130706433',
    '1.2.3.4.5',
    '::1::',
    '[::1]',
    '１.1.1.1',
  ])('refuses %j, which is not a plain address', (text) => {
    expect(parseAddress(text)).toBeUndefined()
  })

  it('never throws', () => {
    fc.assert(fc.property(fc.string(), (text) => void parseAddress(text)))
  })
})

describe('parseRange', () => {
  it.each([
    '10.0.0.0/33',
    '10.0.0.1/8',
    'fd00::/129',
    'fd00::1/64',
    '10.0.0.0',
    '10.0.0.0/',
    '10/8',
    'fe80::%1/64',
  ])('refuses %s', (text) => {
    expect(parseRange(text)).toBeUndefined()
  })

  it('contains exactly the addresses with its prefix', () => {
    fc.assert(
      fc.property(ipv4Bytes, ipv4Bytes, fc.integer({ min: 0, max: 32 }), (start, other, prefixBits) => {
        const bits = (bytes: Uint8Array) =>
          [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('')
        const first = bits(start).slice(0, prefixBits).padEnd(32, '0')
        const aligned = Uint8Array.from(first.match(/.{8}/g) ?? [], (byte) => Number.parseInt(byte, 2))
        const range = parseRange(`${aligned.join('.')}/${prefixBits}`)
        if (range === undefined) throw new Error('an aligned range is a range')
        expect(isInRange(addressOf(start.join('.')), range)).toBe(true)
        expect(isInRange(addressOf(other.join('.')), range)).toBe(
          bits(other).startsWith(bits(start).slice(0, prefixBits)),
        )
      }),
    )
  })

  it('never contains addresses of the other IP version', () => {
    fc.assert(
      fc.property(ipv4Bytes, (bytes) => {
        const [plain, mapped] = [addressOf(bytes.join('.')), addressOf(`::ffff:${bytes.join('.')}`)]
        expect([isSameAddress(plain, mapped), isInRange(mapped, rangeOf(plain))]).toEqual([false, false])
        expect([isInRange(plain, rangeOf(mapped)), isInRange(plain, rangeOf(plain))]).toEqual([false, true])
      }),
    )
  })
})
