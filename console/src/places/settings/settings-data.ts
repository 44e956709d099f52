import { queryOptions } from '@tanstack/react-query'
import type { AnswerOf } from '../../../../src/admin-api/operation.ts'
import type { Reloaded } from '../../../../src/admin-api/server.ts'
import type { Limits, READ_USAGE, Usage } from '../../../../src/admin-api/usage.ts'
import { requestJson } from '../../api/client.ts'

/*
 * The queries of Settings, and the request that reloads the config. Used by several pages.
 */

export type { Reloaded } from '../../../../src/admin-api/server.ts'

export type LimitRule = Limits['rules'][number]

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

export function reloadConfig(): Promise<Reloaded> {
  return requestJson<Reloaded>('/admin/reload', { method: 'POST', body: {} })
}
