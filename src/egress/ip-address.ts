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
  const isAligned = address.every((byte, place) => (byte & ~maskOf(prefixBits, place) & 0xff) === 0)
  return isAligned ? { address, prefixBits } : undefined
}

export function isInRange(address: IpAddress, range: AddressRange): boolean {
  return (
    address.length === range.address.length &&
    range.address.every((byte, place) => byte === ((address[place] ?? 0) & maskOf(range.prefixBits, place)))
  )
}

export function isSameAddress(left: IpAddress, right: IpAddress): boolean {
  return isInRange(left, { address: right, prefixBits: right.length * 8 })
}

/** The bits of one byte that a prefix covers. */
function maskOf(prefixBits: number, place: number): number {
  const covered = Math.min(8, Math.max(0, prefixBits - place * 8))
  return (0xff << (8 - covered)) & 0xff
}
