import { isIPv4, isIPv6 } from 'node:net'

/** Four or sixteen bytes: what a connection is made to, whatever its spelling was. */
export type IpAddress = Uint8Array

const HEXTETS = 8

/** The bytes of a plain IPv4 or IPv6 address; a zone id names a link, not an address, and is left out. */
export function parseAddress(text: string): IpAddress | undefined {
  if (isIPv4(text)) return Uint8Array.from(text.split('.'), Number)
  const zone = text.indexOf('%')
  const plain = zone === -1 ? text : text.slice(0, zone)
  return isIPv6(plain) ? parseIPv6(plain) : undefined
}

function parseIPv6(text: string): IpAddress {
  const [head = '', tail] = text.split('::')
  const left = hextetsOf(head)
  const right = hextetsOf(tail ?? '')
  const zeros = Array<number>(HEXTETS - left.length - right.length).fill(0)
  return Uint8Array.from([...left, ...zeros, ...right].flatMap((hextet) => [hextet >> 8, hextet & 0xff]))
}

/** Groups of one side of `::`; the last may be an IPv4 address. */
function hextetsOf(side: string): readonly number[] {
  if (side === '') return []
  return side.split(':').flatMap((group) => {
    if (!group.includes('.')) return [Number.parseInt(group, 16)]
    const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number)
    return [(a << 8) | b, (c << 8) | d]
  })
}

/** All addresses that begin with the same bits. */
export interface AddressRange {
  readonly address: IpAddress
  readonly prefixBits: number
}

/** `10.0.0.0/8`; `undefined` when it is not that, or when bits after the prefix are set. */
export function parseRange(text: string): AddressRange | undefined {
  const [, start = '', bits = ''] = /^([^/%]+)\/(\d{1,3})$/.exec(text) ?? []
  const address = parseAddress(start)
  const prefixBits = Number(bits)
  if (address === undefined || prefixBits > address.length * 8) return undefined
  const isAligned = address.every((byte, index) => (byte & ~maskOf(prefixBits, index) & 0xff) === 0)
  return isAligned ? { address, prefixBits } : undefined
}

export function isInRange(address: IpAddress, range: AddressRange): boolean {
  return (
    address.length === range.address.length &&
    range.address.every((byte, index) => byte === ((address[index] ?? 0) & maskOf(range.prefixBits, index)))
  )
}

export function isSameAddress(left: IpAddress, right: IpAddress): boolean {
  return isInRange(left, { address: right, prefixBits: right.length * 8 })
}

/** The bits of one byte that a prefix covers. */
function maskOf(prefixBits: number, index: number): number {
  const covered = Math.min(8, Math.max(0, prefixBits - index * 8))
  return (0xff << (8 - covered)) & 0xff
}

/** What stands behind an address, as far as its bytes tell. Only `global` is the internet. */
export type AddressKind =
  | 'global'
  | 'private'
  | 'loopback'
  | 'link-local'
  | 'reserved'
  | 'metadata'
  | 'multicast'
  | 'unspecified'
  | 'translated'

/**
 * Whether an operator may open addresses of a kind. Never: a cloud's metadata service, which hands out
 * credentials; addresses that name nobody or many; IPv4 inside IPv6, which has a spelling of its own.
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
} as const satisfies Record<AddressKind, boolean>

type Row = readonly [AddressKind, ...string[]]

/** IANA's special-purpose registries and the metadata services of clouds; the first row that fits counts. */
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

const IPV6_ROWS: readonly Row[] = [
  ['metadata', 'fd00:ec2::254/128', 'fd00:ec2::23/128', 'fd20:ce::254/128'],
  ['unspecified', '::/128'],
  ['loopback', '::1/128'],
  [
    'translated',
    // v4-mapped, v4-compatible, SIIT, local-use NAT64, Teredo, 6to4.
    ...['::ffff:0:0/96', '::/96', '::ffff:0:0:0/96', '64:ff9b:1::/48', '2001::/32', '2002::/16'],
  ],
  ['private', 'fc00::/7', 'fec0::/10'],
  ['link-local', 'fe80::/10'],
  ['multicast', 'ff00::/8'],
  ['reserved', '2001::/23', '2001:db8::/32', '3fff::/20'],
  ['global', '2000::/3'],
]

const IPV4_RANGES = IPV4_ROWS.flatMap(rangesOf)
const IPV6_RANGES = IPV6_ROWS.flatMap(rangesOf)
const NAT64 = rangeOf('64:ff9b::/96')
const NAT64_PREFIX_BYTES = 12

/** Judges by bytes alone. What no row knows is global in IPv4, where all else is given out, and reserved in IPv6. */
export function kindOf(address: IpAddress): AddressKind {
  if (address.length === 4) return firstKind(address, IPV4_RANGES) ?? 'global'
  if (isInRange(address, NAT64)) {
    // A network without IPv4 reaches all of it this way; only what is global without the detour counts.
    return kindOf(address.subarray(NAT64_PREFIX_BYTES)) === 'global' ? 'global' : 'translated'
  }
  return firstKind(address, IPV6_RANGES) ?? 'reserved'
}

interface KindRange {
  readonly kind: AddressKind
  readonly range: AddressRange
}

function firstKind(address: IpAddress, ranges: readonly KindRange[]): AddressKind | undefined {
  return ranges.find(({ range }) => isInRange(address, range))?.kind
}

function rangesOf([kind, ...texts]: Row): readonly KindRange[] {
  return texts.map((text) => ({ kind, range: rangeOf(text) }))
}

function rangeOf(text: string): AddressRange {
  const range = parseRange(text)
  if (range === undefined) throw new Error(`${text} is not a range`)
  return range
}
