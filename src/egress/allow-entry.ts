import { IS_ALLOWABLE, kindOf } from './address-kind.ts'
import { type AddressRange, type IpAddress, isInRange, parseAddress, parseRange } from './ip-address.ts'

/** One line of the operator's allow-list: an address or range, or a name whose addresses may be local. */
export type AllowEntry =
  | { readonly kind: 'range'; readonly range: AddressRange; readonly port: number | undefined }
  | { readonly kind: 'name'; readonly name: string; readonly port: number | undefined }

export type ParsedAllowEntry =
  | { readonly ok: true; readonly entry: AllowEntry }
  | { readonly ok: false; readonly problem: string }

const FORMS =
  'expected a host name or address with or without a port, or a range: "crm.internal:8080", "127.0.0.1:9000", "[::1]:9000" or "10.1.0.0/16".'

/** Reads `host`, `host:port`, `[v6]:port` or a CIDR range; says what is wrong otherwise. */
export function parseAllowEntry(text: string): ParsedAllowEntry {
  if (text.includes('/')) return parseRangeEntry(text)
  const whole = parseAddress(text)
  if (whole !== undefined && !text.includes('%')) return addressEntry(whole, undefined)
  const [, host = '', digits] = /^(\[[^\]]*\]|[^:[\]@?#\\\s]+)(?::(\d{1,5}))?$/.exec(text) ?? []
  const port = digits === undefined ? undefined : Number(digits)
  if (host === '' || (port !== undefined && (port < 1 || port > 65_535))) return refuse(FORMS)
  const address = host.includes('%') ? undefined : parseAddress(withoutBrackets(host))
  if (address !== undefined) return addressEntry(address, port)
  const name = hostNameOf(URL.parse(`http://${host}/`)?.hostname ?? '')
  if (parseAddress(withoutBrackets(name)) !== undefined)
    return refuse(`is an unusual spelling of ${withoutBrackets(name)}; write that.`)
  if (!/^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/.test(name)) return refuse(FORMS)
  return { ok: true, entry: { kind: 'name', name, port } }
}

function parseRangeEntry(text: string): ParsedAllowEntry {
  const range = parseRange(text)
  if (range === undefined)
    return refuse('expected a range such as "10.1.0.0/16" or "fd00:1::/32", without bits after its prefix.')
  if (range.prefixBits === 0) return refuse('would open every address; name what is needed.')
  return { ok: true, entry: { kind: 'range', range, port: undefined } }
}

function addressEntry(address: IpAddress, port: number | undefined): ParsedAllowEntry {
  const kind = kindOf(address)
  if (!IS_ALLOWABLE[kind]) return refuse(`is ${kind}: such an address is never reached.`)
  const range = { address, prefixBits: address.length * 8 }
  return { ok: true, entry: { kind: 'range', range, port } }
}

function refuse(problem: string): ParsedAllowEntry {
  return { ok: false, problem }
}

/** Where a request goes: the name or address of its URL, and its port. */
export interface Target {
  /** Lower case, without brackets and without a trailing dot. */
  readonly host: string
  readonly port: number
}

export function isAllowedBy(entry: AllowEntry, address: IpAddress, target: Target): boolean {
  if (entry.port !== undefined && entry.port !== target.port) return false
  return entry.kind === 'name' ? entry.name === target.host : isInRange(address, entry.range)
}

/** `localhost.` and `localhost` are one name. */
export function hostNameOf(hostname: string): string {
  return hostname.replace(/\.$/, '')
}

export function withoutBrackets(host: string): string {
  return host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
}
