import type { SourceOptions } from '#config/schema'
import { hostOf } from './configured-hosts.ts'

/** Options that say where an upstream is. */
const ADDRESSES: ReadonlySet<string> = new Set(['url', 'baseUrl', 'document'])

/** The hosts that the operator wrote into a source's options, as entries of an egress allow-list. */
export function sourceHosts(options: SourceOptions): readonly string[] {
  return Object.entries(options).flatMap(([name, value]) =>
    ADDRESSES.has(name) && typeof value === 'string' ? hostOf(value) : [],
  )
}
