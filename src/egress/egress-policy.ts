import { type AllowEntry, parseAllowEntry } from './allow-entry.ts'

/** An address we listen on ourselves. */
export interface Listener {
  readonly host: string
  readonly port: number
}

/** Gives every address of a name. */
export type Lookup = (hostname: string) => Promise<readonly string[]>

export interface EgressLimits {
  /** Largest response, before and after decoding. */
  readonly maxResponseBytes: number
  /** For everything: look-up, connection, redirects and the last byte of the body. */
  readonly timeoutMs: number
  readonly maxRedirects: number
}

/** What may be reached, and how much of it. */
export interface EgressPolicy extends Partial<EgressLimits> {
  /** Local hosts and ranges that may be reached all the same: `host`, `host:port`, `[v6]:port`, CIDR. */
  readonly allow?: readonly string[]
  /** What we listen on; refused whatever `allow` says. Asked anew for every request. */
  ownListeners?(): readonly Listener[]
  /** Default: the system's resolver. */
  readonly lookup?: Lookup
}

const MIB = 1_048_576
export const EGRESS_LIMITS: EgressLimits = { maxResponseBytes: 10 * MIB, timeoutMs: 30_000, maxRedirects: 5 }

/** The same, read once. */
export interface EgressRules extends EgressLimits {
  readonly allow: readonly AllowEntry[]
  ownListeners(): readonly Listener[]
  readonly lookup: Lookup
}

/** Throws when an allow-list entry cannot be read: half a policy is none. */
export function readPolicy(policy: EgressPolicy, systemLookup: Lookup): EgressRules {
  return {
    allow: (policy.allow ?? []).map(readEntry),
    ownListeners: () => policy.ownListeners?.() ?? [],
    lookup: policy.lookup ?? systemLookup,
    maxResponseBytes: policy.maxResponseBytes ?? EGRESS_LIMITS.maxResponseBytes,
    timeoutMs: policy.timeoutMs ?? EGRESS_LIMITS.timeoutMs,
    maxRedirects: policy.maxRedirects ?? EGRESS_LIMITS.maxRedirects,
  }
}

function readEntry(text: string): AllowEntry {
  const parsed = parseAllowEntry(text)
  if (parsed.ok) return parsed.entry
  throw new TypeError(`egress.allow: "${text}" ${parsed.problem}`)
}
