import { lookup as resolve } from 'node:dns/promises'
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { BoundedMap } from '#kernel/base/bounded-map'
import { fault, isToolError, type ToolError } from '#kernel/base/errors'
import type { MaybePromise } from '#kernel/base/waiting'
import {
  type AddressRange,
  type IpAddress,
  IS_ALLOWABLE,
  isInRange,
  isSameAddress,
  kindOf,
  parseAddress,
  parseRange,
  rangeOf,
} from './addresses.ts'

/**
 * The egress policy: the addresses and ports that requests may reach (rule 33, OWP-80), and the operator's allow-list. The
 * guarded fetch checks every request with it, and the config parses the allow-list with it.
 * Invariant: a target is refused if any of its addresses is refused, because a connection may go to any of them.
 */

/** A target with its addresses, all of which are allowed. */
export interface CheckedTarget extends Target {
  readonly addresses: readonly string[]
}

export const DEFAULT_PORTS = { 'http:': 80, 'https:': 443 } as const
const MAX_ADDRESSES = 64

/** Throws unless the URL is http or https without credentials. The URL parser has already normalised unusual spellings of addresses. */
export function targetOf(url: URL): Target {
  const { protocol } = url
  if (protocol !== 'http:' && protocol !== 'https:')
    throw denied(`Scheme "${protocol}" is not http or https.`)
  if (url.username !== '' || url.password !== '') throw denied('A URL must not contain credentials.')
  return {
    host: hostNameOf(withoutBrackets(url.hostname)),
    port: url.port === '' ? DEFAULT_PORTS[protocol] : Number(url.port),
  }
}

/** Throws or rejects if the target is refused. Synchronous for a literal address, which needs no resolver. */
export function checkTarget(url: URL, rules: EgressRules): MaybePromise<CheckedTarget> {
  const target = targetOf(url)
  const host = withoutBrackets(url.hostname)
  if (isIP(host) !== 0) return checkAddresses(target, [host], rules)
  return resolveName(host, rules).then((addresses) => checkAddresses(target, addresses, rules))
}

function checkAddresses(target: Target, addresses: readonly string[], rules: EgressRules): CheckedTarget {
  for (const address of addresses) {
    const refusal = findRefusal(address, target, rules)
    if (refusal !== undefined) throw denied(describeRefusal(target, refusal))
  }
  return { ...target, addresses }
}

export function describeRefusal({ host, port }: Target, refusal: string): string {
  return `ssrf_blocked: ${host} port ${port}: ${refusal}.`
}

async function resolveName(host: string, rules: EgressRules): Promise<readonly string[]> {
  let found: readonly string[]
  try {
    found = await rules.lookup(host)
  } catch (cause) {
    throw new NotConnected(cause)
  }
  if (found.length === 0) throw new NotConnected(new Error('the name has no address'))
  if (found.length > MAX_ADDRESSES) throw denied(`The name has more than ${MAX_ADDRESSES} addresses.`)
  return [...new Set(found)]
}

/** Why an address is refused, for developers; `undefined` if it is allowed. */
export function findRefusal(address: string, target: Target, rules: EgressRules): string | undefined {
  if (rules.ownListeners().some((listener) => isOwnListener(address, target.port, listener)))
    return 'it is a listener of this server'
  const { host, port } = target
  const key = `${address} ${port} ${host}`
  const known = rules.verdicts.get(key)
  if (known !== undefined) return known.refusal
  const refusal = refusalByRules(address, target, rules)
  rules.verdicts.set(key, { refusal })
  return refusal
}

/** The part of the check that depends only on the rules, which never change. */
function refusalByRules(address: string, target: Target, rules: EgressRules): string | undefined {
  const parsed = parseAddress(address)
  if (parsed === undefined) return 'the resolver returned something that is not an address'
  const entries = rules.allow.filter((entry) => isAllowedBy(entry, parsed, target))
  if (BLOCKED_PORTS.has(target.port) && !entries.some(({ port }) => port === target.port))
    return `port ${target.port} belongs to another protocol${howToAllow(target)}`
  const kind = kindOf(parsed)
  if (kind === 'global' || (IS_ALLOWABLE[kind] && entries.length > 0)) return undefined
  return `its address is ${kind}${IS_ALLOWABLE[kind] ? howToAllow(target) : ''}`
}

function howToAllow({ host, port }: Target): string {
  const written = host.includes(':') ? `[${host}]` : host
  return `. To allow it, write in the config: egress: { allow: ['${written}:${port}'] }`
}

/** Compares with every address of this machine, because a wildcard or port forwarding can make a listener answer on others. */
function isOwnListener(text: string, port: number, listener: Listener): boolean {
  const address = port === listener.port ? parseAddress(text) : undefined
  if (address === undefined) return false
  const kind = kindOf(address)
  if (kind === 'loopback' || kind === 'unspecified') return true
  const bound = parseAddress(withoutBrackets(listener.host))
  const own = Object.values(networkInterfaces()).flatMap((parts) =>
    (parts ?? []).flatMap((part) => parseAddress(part.address) ?? []),
  )
  return [...own, ...(bound === undefined ? [] : [bound])].some((other) => isSameAddress(other, address))
}

/** Ports of other protocols, which a crafted HTTP request could imitate: the Fetch standard's list of bad ports. */
const BLOCKED_PORTS: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
  109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515,
  526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049,
  3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10_080,
])

/** A refusal by policy. The addresses that were found are only in the text for developers. */
export function denied(developerMessage: string): ToolError {
  return fault('egress_denied', 'The tool tried to reach an address that this server does not allow.', {
    developerMessage,
  })
}

interface UpstreamFailure {
  readonly developerMessage: string
  readonly cause?: unknown
  /** True only if no request can have been processed (rule 9). */
  readonly canRetry?: boolean
}

export function upstreamFailed(failure: UpstreamFailure): ToolError {
  const message =
    failure.canRetry === true
      ? 'The service behind the tool cannot be reached right now.'
      : 'The service behind the tool returned no usable answer.'
  return fault('upstream_failed', message, failure)
}

/** The error if no connection was made, so nothing was sent. */
export class NotConnected extends Error {
  override readonly name = 'NotConnected'

  constructor(cause: unknown) {
    super('not connected', { cause })
  }
}

/** The code of a system error or the name of its class. Error texts are left out, because they could contain data. */
function errorCodeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown reason'
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name
}

interface FailureFacts {
  readonly caller: AbortSignal
  /** True once the time limit of the exchange has passed. */
  readonly hasPassed: boolean
  /** False once an upstream may have processed a request of this exchange (rule 9). */
  readonly isFirst: boolean
  readonly rules: Pick<EgressLimits, 'timeoutMs'>
}

/** The error for the caller: its own abort reason, a `ToolError` unchanged, or `upstream_failed`. */
export function toFailure(error: unknown, { caller, hasPassed, isFirst, rules }: FailureFacts): unknown {
  if (isToolError(error)) return error
  if (caller.aborted) return caller.reason
  if (hasPassed)
    return upstreamFailed({
      developerMessage: `No full answer within ${rules.timeoutMs} ms (egress.timeoutMs).`,
    })
  if (error instanceof NotConnected) {
    const { cause } = error
    return upstreamFailed({
      developerMessage: `Not connected: ${errorCodeOf(cause)}.`,
      canRetry: isFirst,
      cause,
    })
  }
  return upstreamFailed({
    developerMessage: `The exchange was interrupted: ${errorCodeOf(error)}.`,
    cause: error,
  })
}

export interface Listener {
  readonly host: string
  readonly port: number
}

export type Lookup = (hostname: string) => Promise<readonly string[]>

interface EgressLimits {
  /** Applies before and after decoding. */
  readonly maxResponseBytes: number
  /** Time limit for a whole exchange, from DNS to the last byte of the body, redirects included. */
  readonly timeoutMs: number
  readonly maxRedirects: number
}

export interface EgressPolicy extends Partial<EgressLimits> {
  /** Local hosts and ranges that may be reached: `host`, `host:port`, `[v6]:port`, CIDR. */
  readonly allow?: readonly string[]
  /** This server's own listeners, which are refused even if `allow` contains them. Called for every request. */
  ownListeners?(): readonly Listener[]
  /** Default: the system's resolver. */
  readonly lookup?: Lookup
}

const MIB = 1_048_576
export const EGRESS_LIMITS: EgressLimits = { maxResponseBytes: 10 * MIB, timeoutMs: 30_000, maxRedirects: 5 }

export interface EgressRules extends EgressLimits {
  readonly allow: readonly AllowEntry[]
  ownListeners(): readonly Listener[]
  readonly lookup: Lookup
  /** Cached results of checking targets against the other members. */
  readonly verdicts: BoundedMap<string, { readonly refusal: string | undefined }>
}

/** Maximum number of cached verdicts. */
const MAX_VERDICTS = 1_000

const systemLookup: Lookup = async (hostname) =>
  (await resolve(hostname, { all: true })).map(({ address }) => address)

/** Throws if an entry of the allow-list cannot be read. */
export function readPolicy(policy: EgressPolicy): EgressRules {
  const { allow = [], lookup = systemLookup, ...limits } = policy
  return {
    ...EGRESS_LIMITS,
    ...limits,
    allow: allow.map((text) => {
      const parsed = parseAllowEntry(text)
      if (parsed.ok) return parsed.entry
      throw new TypeError(`egress.allow: "${text}" ${parsed.problem}`)
    }),
    ownListeners: () => policy.ownListeners?.() ?? [],
    lookup,
    verdicts: new BoundedMap({ entries: MAX_VERDICTS }),
  }
}

/** An entry of the allow-list: an address or range, or a name whose addresses may be local. */
type AllowEntry =
  | { readonly kind: 'range'; readonly range: AddressRange; readonly port: number | undefined }
  | { readonly kind: 'name'; readonly name: string; readonly port: number | undefined }

type ParsedAllowEntry =
  | { readonly ok: true; readonly entry: AllowEntry }
  | { readonly ok: false; readonly problem: string }

const FORMS =
  'expected a host name or address with or without a port, or a range: "crm.internal:8080", "127.0.0.1:9000", "[::1]:9000" or "10.1.0.0/16".'

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
  if (range.prefixBits === 0) return refuse('would allow every address; name only what is needed.')
  return { ok: true, entry: { kind: 'range', range, port: undefined } }
}

function addressEntry(address: IpAddress, port: number | undefined): ParsedAllowEntry {
  const kind = kindOf(address)
  if (!IS_ALLOWABLE[kind]) return refuse(`has the kind "${kind}", which is never allowed.`)
  return { ok: true, entry: { kind: 'range', range: rangeOf(address), port } }
}

function refuse(problem: string): ParsedAllowEntry {
  return { ok: false, problem }
}

interface Target {
  /** Lower case, without brackets and without a trailing dot. */
  readonly host: string
  readonly port: number
}

export function isAllowedBy(entry: AllowEntry, address: IpAddress, target: Target): boolean {
  if (entry.port !== undefined && entry.port !== target.port) return false
  return entry.kind === 'name' ? entry.name === target.host : isInRange(address, entry.range)
}

/** Removes a trailing dot, because `localhost.` and `localhost` are the same name. */
export function hostNameOf(hostname: string): string {
  return hostname.replace(/\.$/, '')
}

function withoutBrackets(host: string): string {
  return host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
}
