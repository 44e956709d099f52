import { networkInterfaces } from 'node:os'
import { IS_ALLOWABLE, kindOf } from './address-kind.ts'
import { isAllowedBy, type Target, withoutBrackets } from './allow-entry.ts'
import { BLOCKED_PORTS } from './blocked-ports.ts'
import type { EgressRules, Listener } from './egress-policy.ts'
import { type IpAddress, isSameAddress, parseAddress } from './ip-address.ts'

/** Why an address may not be reached, for developers; `undefined` when it may (rule 33, OWP-80). */
export function findRefusal(address: string, target: Target, rules: EgressRules): string | undefined {
  const bytes = parseAddress(address)
  if (bytes === undefined) return 'the resolver gave something that is no address'
  if (rules.ownListeners().some((listener) => isOwnListener(bytes, target.port, listener)))
    return 'it is a listener of this server'
  const entries = rules.allow.filter((entry) => isAllowedBy(entry, bytes, target))
  if (BLOCKED_PORTS.has(target.port) && !entries.some(({ port }) => port === target.port))
    return `port ${target.port} belongs to another protocol`
  const kind = kindOf(bytes)
  if (kind === 'global' || (IS_ALLOWABLE[kind] && entries.length > 0)) return undefined
  return `its address is ${kind}`
}

/** Any address of this machine counts: a listener on one may answer on others, by wildcard or forwarding. */
function isOwnListener(address: IpAddress, port: number, listener: Listener): boolean {
  if (port !== listener.port) return false
  const kind = kindOf(address)
  if (kind === 'loopback' || kind === 'unspecified') return true
  const bound = parseAddress(withoutBrackets(listener.host))
  const own = Object.values(networkInterfaces()).flatMap((parts) =>
    (parts ?? []).flatMap((part) => parseAddress(part.address) ?? []),
  )
  return [...own, ...(bound === undefined ? [] : [bound])].some((mine) => isSameAddress(mine, address))
}
