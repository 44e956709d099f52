import { hostNameOf, type Target, withoutBrackets } from './allow-entry.ts'
import { denied, NotConnected } from './egress-fault.ts'
import type { EgressRules } from './egress-policy.ts'
import { parseAddress } from './ip-address.ts'
import { findRefusal } from './judge-address.ts'

/** A target and the addresses that were found good for it: the only ones to connect to. */
export interface CheckedTarget extends Target {
  readonly addresses: readonly string[]
}

const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 }
const MOST_ADDRESSES = 64

/** The target of a URL; throws for what is not plain HTTP. The URL parser has made odd spellings plain. */
export function targetOf(url: URL): Target {
  const port = DEFAULT_PORTS[url.protocol]
  if (port === undefined) throw denied(`Scheme "${url.protocol}" is not http or https.`)
  if (url.username !== '' || url.password !== '') throw denied('A URL must not carry credentials.')
  return { host: hostNameOf(withoutBrackets(url.hostname)), port: url.port === '' ? port : Number(url.port) }
}

/** Finds every address of the target; one bad address refuses all, because any may be connected to (OWP-80). */
export async function checkTarget(url: URL, rules: EgressRules): Promise<CheckedTarget> {
  const target = targetOf(url)
  const addresses = await addressesOf(withoutBrackets(url.hostname), rules)
  for (const address of addresses) {
    const refusal = findRefusal(address, target, rules)
    if (refusal !== undefined) throw denied(describeRefusal(target, refusal))
  }
  return { ...target, addresses }
}

export function describeRefusal({ host, port }: Target, refusal: string): string {
  return `ssrf_blocked: ${host} port ${port}: ${refusal}. An operator can allow local upstreams with egress.allow.`
}

async function addressesOf(host: string, rules: EgressRules): Promise<readonly string[]> {
  if (parseAddress(host) !== undefined) return [host]
  let found: readonly string[]
  try {
    found = await rules.lookup(host)
  } catch (cause) {
    throw new NotConnected(cause)
  }
  if (found.length === 0) throw new NotConnected(new Error('the name has no address'))
  if (found.length > MOST_ADDRESSES) throw denied(`The name has more than ${MOST_ADDRESSES} addresses.`)
  return [...new Set(found)]
}
