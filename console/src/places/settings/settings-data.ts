import { queryOptions } from '@tanstack/react-query'
import type { ApiKey, CREATE_KEY, LIST_KEYS, NewKey } from '../../../../src/admin-api/keys.ts'
import type { AnswerOf, BodyOf } from '../../../../src/admin-api/operation.ts'
import type { READ_AUDIT, Refusal, Reloaded } from '../../../../src/admin-api/server.ts'
import type { LIST_TOOLSETS } from '../../../../src/admin-api/tools.ts'
import type { Limits, READ_USAGE, Usage } from '../../../../src/admin-api/usage.ts'
import { requestJson } from '../../api/client.ts'

/*
 * The queries of Settings, and the requests that change keys and reload the config. Several pages use it.
 */

export type { ApiKey, ConfiguredKey, NewKey } from '../../../../src/admin-api/keys.ts'
export type { Refusal, Reloaded } from '../../../../src/admin-api/server.ts'

export type LimitRule = Limits['rules'][number]

export const keysQuery = queryOptions({
  queryKey: ['settings', 'keys'],
  queryFn: ({ signal }) => requestJson<AnswerOf<typeof LIST_KEYS>>('/admin/keys', { signal }),
})

export const toolsetsQuery = queryOptions({
  queryKey: ['settings', 'toolsets'],
  queryFn: async ({ signal }) =>
    (await requestJson<AnswerOf<typeof LIST_TOOLSETS>>('/admin/toolsets', { signal })).toolsets.map(
      ({ name }) => name,
    ),
})

export function createKey(terms: BodyOf<typeof CREATE_KEY>): Promise<NewKey> {
  return requestJson<NewKey>('/admin/keys', { method: 'POST', body: terms })
}

export function rotateKey({ principal, tenant }: ApiKey, oldEndsInSeconds: number | null): Promise<NewKey> {
  const body = { tenant, ...(oldEndsInSeconds === null ? {} : { old_ends_in_seconds: oldEndsInSeconds }) }
  return requestJson<NewKey>(`/admin/principals/${encodeURIComponent(principal)}/keys`, {
    method: 'POST',
    body,
  })
}

export async function revokeKey({ key_id }: ApiKey): Promise<void> {
  await requestJson(`/admin/keys/${encodeURIComponent(key_id)}`, { method: 'DELETE' })
}

/** Permanently ends a principal and all its keys. */
export async function endPrincipal({ principal, tenant }: ApiKey): Promise<void> {
  const path = `/admin/principals/${encodeURIComponent(principal)}?tenant=${encodeURIComponent(tenant)}`
  await requestJson(path, { method: 'DELETE' })
}

/** The usage of all tools by one caller. */
export interface CallerUsage
  extends Pick<Usage, 'tenant' | 'principal' | 'calls' | 'errors' | 'rejected' | 'seconds' | 'cost'> {
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
      const { usage, whole } = await requestJson<AnswerOf<typeof READ_USAGE>>(`/admin/usage?since=${since}`, {
        signal,
      })
      return { callers: byCaller(usage), whole }
    },
    staleTime: 30_000,
  })
}

function byCaller(usage: readonly Usage[]): readonly CallerUsage[] {
  const callers = new Map<string, CallerUsage>()
  for (const { tenant, principal, calls, errors, rejected, seconds, cost } of usage) {
    const key = JSON.stringify([tenant, principal])
    const nothing = { calls: 0, errors: 0, rejected: 0, seconds: 0, cost: 0 }
    const before = callers.get(key) ?? { key, tenant, principal, ...nothing }
    callers.set(key, {
      ...before,
      calls: before.calls + calls,
      errors: before.errors + errors,
      rejected: before.rejected + rejected,
      seconds: before.seconds + seconds,
      cost: before.cost + cost,
    })
  }
  return [...callers.values()].sort((left, right) => right.calls - left.calls)
}

export const limitsQuery = queryOptions({
  queryKey: ['settings', 'limits'],
  queryFn: ({ signal }) => requestJson<Limits>('/admin/limits', { signal }),
  refetchInterval: 5_000,
})

const PAGE_SIZE = 1_000
const MAX_PAGES = 20
const MAX_SHOWN = 100

/** The newest refusals. The log is read from its beginning, so the end of a very long log may be missing (`isWhole` is false). */
export const refusalsQuery = queryOptions({
  queryKey: ['settings', 'refusals'],
  async queryFn({ signal }) {
    let newest: readonly Refusal[] = []
    let after = 0
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const { events, next } = await requestJson<AnswerOf<typeof READ_AUDIT>>(
        `/admin/audit?after=${after}&limit=${PAGE_SIZE}`,
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

export function reloadConfig(): Promise<Reloaded> {
  return requestJson<Reloaded>('/admin/reload', { method: 'POST', body: {} })
}
