import { BlockList } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type AddressKind, kindOf, parseAddress } from './addresses.ts'

const BY_KIND = {
  global: [
    '8.8.8.8',
    '1.1.1.1',
    '172.15.0.1',
    '172.32.0.1',
    '100.63.0.1',
    '100.128.0.1',
    '192.0.1.1',
    '2606:4700::1',
    '64:ff9b::8.8.8.8',
  ],
  private: [
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '100.64.0.1',
    '100.127.255.255',
    'fc00::1',
    'fd12::1',
    'fec0::1',
  ],
  loopback: ['127.0.0.1', '127.255.255.254', '::1'],
  'link-local': ['169.254.0.1', 'fe80::1', 'fe80::1%eth0', 'febf::1'],
  reserved: [
    '192.0.0.8',
    '192.0.2.1',
    '192.88.99.1',
    '198.18.0.1',
    '198.19.255.255',
    '198.51.100.1',
    '203.0.113.1',
    '240.0.0.1',
    '2001:db8::1',
    '2001:2::1',
    '2001:20::1',
    '3fff::1',
    '100::1',
    '5f00::1',
    '4000::1',
    '1::',
  ],
  metadata: [
    '169.254.169.254',
    '169.254.170.2',
    '168.63.129.16',
    '100.100.100.200',
    '192.0.0.192',
    'fd00:ec2::254',
    'fd20:ce::254',
  ],
  multicast: ['224.0.0.1', '239.255.255.255', '255.255.255.255', 'ff02::1'],
  unspecified: ['0.0.0.0', '0.1.2.3', '::'],
  translated: [
    '::ffff:127.0.0.1',
    '::ffff:8.8.8.8',
    '::127.0.0.1',
    '::ffff:0:127.0.0.1',
    '64:ff9b::127.0.0.1',
    '64:ff9b::169.254.169.254',
    '64:ff9b:1::8.8.8.8',
    '2001::1',
    '2002:7f00:1::',
    '2002:808:808::',
  ],
} satisfies Record<AddressKind, readonly string[]>

function kindOfText(text: string): AddressKind {
  const address = parseAddress(text)
  if (address === undefined) throw new Error(`${text} is not an address`)
  return kindOf(address)
}

/** The special-purpose IPv4 ranges as a Node `BlockList`. */
function specialIPv4(): BlockList {
  const list = new BlockList()
  for (const row of [
    ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12'],
    ...['192.0.0.0/24', '192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15'],
    ...['198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/3', '168.63.129.16/32'],
  ]) {
    const [start = '', bits] = row.split('/')
    list.addSubnet(start, Number(bits), 'ipv4')
  }
  return list
}

describe('kindOf', () => {
  it.each(Object.entries(BY_KIND).flatMap(([kind, texts]) => texts.map((text) => [text, kind] as const)))(
    'OWP-80: %s is %s',
    (text, kind) => {
      expect(kindOfText(text)).toBe(kind)
    },
  )

  it('OWP-80: agrees with the registry on every IPv4 address', () => {
    const special = specialIPv4()
    const bytes = fc.tuple(
      fc.oneof(fc.nat(255), fc.constantFrom(0, 10, 100, 127, 168, 169, 172, 192, 198, 203, 224, 240, 255)),
      fc.oneof(fc.nat(255), fc.constantFrom(0, 16, 18, 19, 31, 51, 63, 64, 88, 127, 128, 168, 254)),
      fc.oneof(fc.nat(255), fc.constantFrom(0, 2, 99, 100, 113, 129)),
      fc.nat(255),
    )
    fc.assert(
      fc.property(bytes, (address) => {
        expect(kindOfText(address.join('.')) === 'global').toBe(!special.check(address.join('.'), 'ipv4'))
      }),
      { numRuns: 2_000 },
    )
  })

  it('OWP-80: no IPv6 form of a local IPv4 address is global', () => {
    const local = fc.constantFrom(
      '127.0.0.1',
      '10.1.2.3',
      '169.254.169.254',
      '192.168.0.1',
      '0.0.0.0',
      '100.64.0.1',
    )
    const form = fc.constantFrom<((text: string) => string)[]>(
      (text) => `::ffff:${text}`,
      (text) => `::${text}`,
      (text) => `::ffff:0:${text}`,
      (text) => `64:ff9b::${text}`,
      (text) => `64:ff9b:1::${text}`,
      (text) => {
        const [a = 0, b = 0, c = 0, d = 0] = text.split('.').map(Number)
        return `2002:${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}::1`
      },
    )
    fc.assert(
      fc.property(local, form, (text, write) => {
        expect(kindOfText(write(text))).not.toBe('global')
      }),
    )
  })

  it('OWP-80: outside 2000::/3 only NAT64 is global', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (bytes) => {
        const [first = 0] = bytes
        const groups = Buffer.from(bytes).toString('hex').match(/.{4}/g) ?? []
        if (kindOfText(groups.join(':')) === 'global') expect(first === 0 || first >> 5 === 1).toBe(true)
      }),
      { numRuns: 1_000 },
    )
  })
})
