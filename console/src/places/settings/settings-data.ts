import { queryOptions } from '@tanstack/react-query'
import { request } from '../../api/client.ts'

export interface ApiKey {
  readonly key_id: string
  readonly tenant: string
  readonly principal: string
  readonly label: string | null
  readonly scopes: readonly string[]
  readonly roles: readonly string[]
  readonly tools: readonly string[] | null
  readonly toolsets: readonly string[]
  readonly created_at: string
  readonly expires_at: string | null
  readonly revoked_at: string | null
  readonly last_used_at: string | null
}

/** A key as it is shown once. */
export interface NewKey {
  readonly tenant: string
  readonly principal: string
  readonly key_id: string
  readonly key: string
  readonly expires_at: string | null
  readonly warnings: readonly string[]
}

/** A key that is written in the config, and can only be changed there. */
export type ConfiguredKey = Pick<ApiKey, 'principal' | 'tenant' | 'scopes' | 'roles' | 'tools' | 'expires_at'>

interface Keys {
  readonly keys: readonly ApiKey[]
  readonly configured: readonly ConfiguredKey[]
}

export const keysQuery = queryOptions({
  queryKey: ['settings', 'keys'],
  queryFn: ({ signal }) => request<Keys>('/admin/keys', { signal }),
})

export const toolsetsQuery = queryOptions({
  queryKey: ['settings', 'toolsets'],
  queryFn: async ({ signal }) =>
    (
      await request<{ readonly toolsets: readonly { readonly name: string }[] }>('/admin/toolsets', {
        signal,
      })
    ).toolsets.map(({ name }) => name),
})

export interface NewKeyTerms {
  readonly principal: string
  readonly tenant?: string
  readonly label?: string
  readonly scopes: readonly string[]
  readonly roles: readonly string[]
  readonly tools?: readonly string[]
  readonly toolsets?: readonly string[]
  readonly expires_at?: string
}

export function createKey(terms: NewKeyTerms): Promise<NewKey> {
  return request<NewKey>('/admin/keys', { method: 'POST', body: terms })
}

export function rotateKey({ principal, tenant }: ApiKey, oldEndsInSeconds: number | null): Promise<NewKey> {
  const body = { tenant, ...(oldEndsInSeconds === null ? {} : { old_ends_in_seconds: oldEndsInSeconds }) }
  return request<NewKey>(`/admin/principals/${encodeURIComponent(principal)}/keys`, { method: 'POST', body })
}

export async function revokeKey({ key_id }: ApiKey): Promise<void> {
  await request(`/admin/keys/${encodeURIComponent(key_id)}`, { method: 'DELETE' })
}

/** A principal with all its keys, for good. */
export async function endPrincipal({ principal, tenant }: ApiKey): Promise<void> {
  const path = `/admin/principals/${encodeURIComponent(principal)}?tenant=${encodeURIComponent(tenant)}`
  await request(path, { method: 'DELETE' })
}

interface UsedGroup {
  readonly tenant: string
  readonly principal: string
  readonly calls: number
  readonly errors: number
  /** Requests that were turned down before a call was recorded. */
  readonly rejected: number
  readonly seconds: number
  readonly cost: number
}

/** What one team used of all tools. */
export interface TeamUse extends UsedGroup {
  readonly key: string
}

const SPANS = { '24h': 1, '7d': 7, '30d': 30 } as const
export type Span = keyof typeof SPANS
const DAY_MS = 86_400_000

export function usageQuery(span: Span) {
  return queryOptions({
    queryKey: ['settings', 'usage', span],
    async queryFn({ signal }) {
      const since = new Date(Date.now() - SPANS[span] * DAY_MS).toISOString()
      const { usage, whole } = await request<{
        readonly usage: readonly UsedGroup[]
        readonly whole: boolean
      }>(`/admin/usage?since=${since}`, { signal })
      return { teams: byTeam(usage), whole }
    },
    staleTime: 30_000,
  })
}

function byTeam(usage: readonly UsedGroup[]): readonly TeamUse[] {
  const teams = new Map<string, TeamUse>()
  for (const { tenant, principal, calls, errors, rejected, seconds, cost } of usage) {
    const key = JSON.stringify([tenant, principal])
    const nothing = { calls: 0, errors: 0, rejected: 0, seconds: 0, cost: 0 }
    const before = teams.get(key) ?? { key, tenant, principal, ...nothing }
    teams.set(key, {
      ...before,
      calls: before.calls + calls,
      errors: before.errors + errors,
      rejected: before.rejected + rejected,
      seconds: before.seconds + seconds,
      cost: before.cost + cost,
    })
  }
  return [...teams.values()].sort((left, right) => right.calls - left.calls)
}

export interface LimitRule {
  readonly of: 'server' | 'principal' | 'tool'
  readonly name: string | null
  readonly rate: { readonly per_minute: number; readonly burst: number } | null
  readonly at_once: number | null
}

interface Limits {
  readonly now: readonly { readonly what: string; readonly used: number; readonly limit: number | null }[]
  readonly rules: readonly LimitRule[]
}

export const limitsQuery = queryOptions({
  queryKey: ['settings', 'limits'],
  queryFn: ({ signal }) => request<Limits>('/admin/limits', { signal }),
  refetchInterval: 5_000,
})

export interface Refusal {
  readonly no: number
  readonly at: string
  readonly tenant: string
  readonly principal: string
  readonly principal_id?: string
  readonly action: string
  readonly resource: string
  readonly reason: string
  readonly count: number
}

const AT_ONCE = 1_000
const MAX_PAGES = 20
const MAX_SHOWN = 100

/** The newest refusals. The log is read from its beginning; of a very long one the end may be missing, which is said. */
export const refusalsQuery = queryOptions({
  queryKey: ['settings', 'refusals'],
  async queryFn({ signal }) {
    let newest: readonly Refusal[] = []
    let after = 0
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const { events, next } = await request<{ readonly events: readonly Refusal[]; readonly next: number }>(
        `/admin/audit?after=${after}&limit=${AT_ONCE}`,
        { signal },
      )
      newest = [...newest, ...events].slice(-MAX_SHOWN)
      if (next <= after) return { refusals: newest.toReversed(), isWhole: true }
      after = next
    }
    return { refusals: newest.toReversed(), isWhole: false }
  },
  staleTime: 30_000,
})

export interface Reloaded {
  readonly applied: readonly string[] | null
  readonly needs_restart?: readonly string[]
  readonly refused?: readonly string[]
}

export function reloadConfig(): Promise<Reloaded> {
  return request<Reloaded>('/admin/reload', { method: 'POST', body: {} })
}
