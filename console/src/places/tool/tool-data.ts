import { queryOptions } from '@tanstack/react-query'
import { request } from '../../api/client.ts'
import type { Difference } from '../../parts/differences.tsx'
import type { TierName } from '../../parts/meaning.tsx'

/** A JSON Schema, of which nothing is known beforehand. */
export type Schema = Readonly<Record<string, unknown>>

/** One tool as `GET /admin/tools/{id}` tells of it. */
export interface ToolDetails {
  /** With its version. */
  readonly id: string
  readonly base: string
  readonly version: string
  /** The newest first. */
  readonly versions: readonly { readonly version: string; readonly definition_hash: string }[]
  readonly title: string | null
  readonly description: string
  readonly kind: string
  readonly source: ToolSource | null
  readonly toolkit: string
  readonly tags: readonly string[]
  readonly toolsets: readonly string[]
  readonly names: {
    readonly otc: string
    readonly mcp: string
    readonly opentool: string | null
    readonly openwop: string
  }
  readonly input_schema: Schema
  /** `null`: it gives nothing back. */
  readonly output_schema: Schema | null
  readonly examples: readonly unknown[]
  readonly policy: ToolPolicy
  readonly keeps_state: boolean
  readonly steps: readonly string[]
  readonly requirements: readonly Requirement[]
  readonly definition_hash: string
  /** What an upstream changed and nobody has let in. */
  readonly change: HeldChange | null
  readonly pin: Pin | null
  readonly seen: readonly SeenDefinition[] | null
  readonly model: { readonly mcp: unknown; readonly openai: unknown; readonly anthropic: unknown }
}

interface ToolSource {
  readonly key: string
  readonly type: string
  readonly state: string
  readonly since: string
  /** For those who run the server. */
  readonly reason: string | null
}

export interface ToolPolicy {
  readonly tier: TierName
  readonly egress: string | null
  readonly egress_allow: readonly string[] | null
  readonly replay: string
  readonly scopes: readonly string[]
  /** The only tenants it is for, told to the operator. */
  readonly tenants: readonly string[] | null
  readonly timeout_ms: number
  readonly rerun_window_ms: number
  readonly cost: number
  readonly approval: 'never' | 'always' | 'conditional'
  readonly approval_terms: {
    readonly by_rule: boolean
    readonly expires_after_ms: number
    readonly quorum: number
    readonly required_scope: string | null
    readonly self_approval: boolean
  } | null
}

export interface Requirement {
  readonly kind: 'oauth' | 'secret' | 'user' | 'scope'
  readonly id: string
  readonly scopes: readonly string[]
  /** `per_user`: it is the user's own, whom each call names. `scopes`: what is there does not reach far enough. */
  readonly state: 'met' | 'missing' | 'spent' | 'scopes' | 'per_user'
  readonly connect: {
    readonly how: 'consent' | 'vault' | 'call' | 'key'
    readonly says: string
    readonly command: string | null
  }
}

interface HeldChange {
  readonly kind: string
  readonly class: string
  readonly since: string
  readonly suspended: boolean
  readonly rejected: boolean
}

interface Pin {
  readonly state: string
  readonly version: string | null
  readonly hash: string | null
  readonly accepted_by: string | null
  readonly accepted_at: string | null
  readonly waiting: {
    readonly class: string
    readonly reasons: readonly string[]
    readonly hash: string
    readonly seen_at: string | null
  } | null
  readonly next_version: string | null
  readonly differences: readonly Difference[]
}

interface SeenDefinition {
  readonly tool: string
  readonly definition_hash: string
  readonly calls: number
  readonly first_at: string | null
  readonly last_at: string | null
}

export interface Usage {
  readonly calls: number
  readonly errors: number
  readonly p50_ms: number | null
  readonly p95_ms: number | null
  readonly buckets: readonly {
    readonly at: string
    readonly calls: number
    readonly errors: number
    readonly p50_ms: number | null
    readonly p95_ms: number | null
  }[]
  /** False where there were more calls than were counted. */
  readonly whole: boolean
}

export function toolQuery(id: string, version: string) {
  return queryOptions({
    queryKey: ['tool', id, version],
    queryFn: async ({ signal }) => {
      const { tool } = await request<{ readonly tool: ToolDetails }>(pathOf(id, '', version), { signal })
      return tool
    },
  })
}

const LOOK_AGAIN_MS = 30_000

/** Whoever may not see calls sees no numbers; the page is whole without them. */
export function usageQuery(id: string) {
  return queryOptions({
    queryKey: ['tool', id, 'usage'],
    queryFn: async ({ signal }) => {
      const { usage } = await request<{ readonly usage: Usage }>(pathOf(id, '/usage', ''), { signal })
      return usage
    },
    retry: false,
    refetchInterval: LOOK_AGAIN_MS,
  })
}

function pathOf(id: string, below: string, version: string): string {
  const query = version === '' ? '' : `?version=${encodeURIComponent(version)}`
  return `/admin/tools/${encodeURIComponent(id)}${below}${query}`
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
