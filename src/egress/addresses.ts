import { BlockList, isIPv4, isIPv6, SocketAddress } from 'node:net'

/**
 * IP addresses, address ranges, and the kind of network that each address belongs to. The egress policy and the server's safety
 * checks use this module.
 * Invariant: addresses are compared in parsed form, so their spelling does not matter, and no local address is `global`.
 */

/** An address in its canonical spelling. */
export type IpAddress = SocketAddress

/** Ignores a zone id, which names a link and is not part of the address. */
export function parseAddress(text: string): IpAddress | undefined {
  if (isIPv4(text)) return new SocketAddress({ address: text, family: 'ipv4' })
  const [plain = ''] = text.split('%', 1)
  return isIPv6(plain) ? new SocketAddress({ address: plain, family: 'ipv6' }) : undefined
}

/** All addresses that begin with the same bits. */
export interface AddressRange {
  readonly family: 'ipv4' | 'ipv6'
  readonly prefixBits: number
  readonly members: BlockList
}

/** Reads a range such as `10.0.0.0/8`; `undefined` also if bits after the prefix are set. */
export function parseRange(text: string): AddressRange | undefined {
  const [, start = '', digits = ''] = /^([^/%]+)\/(\d{1,3})$/.exec(text) ?? []
  const address = parseAddress(start)
  if (address === undefined) return undefined
  const bits = bitsOf(address)
  const prefixBits = Number(digits)
  if (prefixBits > bits.length || bits.slice(prefixBits).includes('1')) return undefined
  return makeRange(address, prefixBits)
}

export function rangeOf(address: IpAddress): AddressRange {
  return makeRange(address, address.family === 'ipv4' ? 32 : 128)
}

function makeRange(start: IpAddress, prefixBits: number): AddressRange {
  const members = new BlockList()
  members.addSubnet(start, prefixBits)
  return { family: start.family, prefixBits, members }
}

function bitsOf({ address, family }: IpAddress): string {
  if (family === 'ipv4') return toBits(address.split('.'), 10, 8)
  // The URL parser writes every IPv6 address in hexadecimal groups.
  const { hostname } = new URL(`http://[${address}]`)
  const [head = '', tail = ''] = hostname
    .slice(1, -1)
    .split('::')
    .map((side) => toBits(side === '' ? [] : side.split(':'), 16, 16))
  return head + tail.padStart(128 - head.length, '0')
}

function toBits(numbers: readonly string[], radix: number, width: number): string {
  return numbers.map((text) => Number.parseInt(text, radix).toString(2).padStart(width, '0')).join('')
}

/** Compares only within one family, because a `BlockList` also finds IPv4 addresses that are mapped into IPv6. */
export function isInRange(address: IpAddress, { family, members }: AddressRange): boolean {
  return address.family === family && members.check(address)
}

export function isSameAddress(left: IpAddress, right: IpAddress): boolean {
  return left.family === right.family && left.address === right.address
}

/**
 * True for the kinds of address that an operator may allow. Metadata services are never allowed, because they hand out
 * credentials; multicast and unspecified addresses do not name one host; an IPv4 address inside IPv6 can be written as IPv4.
 */
export const IS_ALLOWABLE = {
  global: true,
  private: true,
  loopback: true,
  'link-local': true,
  reserved: true,
  metadata: false,
  multicast: false,
  unspecified: false,
  translated: false,
} as const

/** The kind of network that an address belongs to. Only `global` is the internet. */
export type AddressKind = keyof typeof IS_ALLOWABLE

type Row = readonly [kind: AddressKind, ...ranges: string[]]

/** IANA's special-purpose registries and the metadata services of clouds. The first row that contains an address decides. */
const IPV4_ROWS: readonly Row[] = [
  [
    'metadata',
    ...['169.254.169.254/32', '169.254.170.2/32', '169.254.170.23/32', '168.63.129.16/32'],
    ...['100.100.100.200/32', '192.0.0.192/32'],
  ],
  ['unspecified', '0.0.0.0/8'],
  ['loopback', '127.0.0.0/8'],
  ['private', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10'],
  ['link-local', '169.254.0.0/16'],
  ['multicast', '224.0.0.0/4', '255.255.255.255/32'],
  [
    'reserved',
    ...['192.0.0.0/24', '192.0.2.0/24', '192.88.99.0/24', '198.18.0.0/15', '198.51.100.0/24'],
    ...['203.0.113.0/24', '240.0.0.0/4'],
  ],
]

/** The prefix through which a network without IPv4 reaches IPv4 addresses. */
const NAT64 = '64:ff9b::'

const IPV6_ROWS: readonly Row[] = [
  ['metadata', 'fd00:ec2::254/128', 'fd00:ec2::23/128', 'fd20:ce::254/128'],
  ['unspecified', '::/128'],
  ['loopback', '::1/128'],
  [
    'translated',
    // v4-mapped, v4-compatible, SIIT, local-use NAT64, Teredo, 6to4.
    ...['::ffff:0:0/96', '::/96', '::ffff:0:0:0/96', '64:ff9b:1::/48', '2001::/32', '2002::/16'],
    // An IPv4 address behind NAT64 is global only if the IPv4 address itself is global.
    ...IPV4_ROWS.flatMap(([, ...ranges]) => ranges.map(throughNat64)),
  ],
  ['private', 'fc00::/7', 'fec0::/10'],
  ['link-local', 'fe80::/10'],
  ['multicast', 'ff00::/8'],
  ['reserved', '2001::/23', '2001:db8::/32', '3fff::/20'],
  ['global', '2000::/3', `${NAT64}/96`],
]

function throughNat64(range: string): string {
  const [start, bits] = range.split('/')
  return `${NAT64}${start}/${96 + Number(bits)}`
}

const KINDS = { ipv4: IPV4_ROWS.map(readRow), ipv6: IPV6_ROWS.map(readRow) }

/** Addresses without a row are global in IPv4, where all other addresses are assigned, and reserved in IPv6. */
export function kindOf(address: IpAddress): AddressKind {
  const found = KINDS[address.family].find(({ members }) => members.check(address))
  return found?.kind ?? (address.family === 'ipv4' ? 'global' : 'reserved')
}

function readRow([kind, ...ranges]: Row): { readonly kind: AddressKind; readonly members: BlockList } {
  const members = new BlockList()
  for (const range of ranges) {
    const [start = '', bits] = range.split('/')
    members.addSubnet(start, Number(bits), isIPv4(start) ? 'ipv4' : 'ipv6')
  }
  return { kind, members }
}
