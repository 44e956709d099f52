import { queryOptions } from '@tanstack/react-query'
import { request } from './client.ts'

/** A budget that a caller has spent from, in its present window. */
export interface Budget {
  readonly tenant: string
  readonly principal: string | null
  readonly window_seconds: number
  readonly resets_at: string
  readonly units: readonly {
    readonly unit: string
    readonly limit: number | null
    readonly used: number
    readonly left: number | null
  }[]
}

export const budgetsQuery = queryOptions({
  queryKey: ['budgets'],
  queryFn: async ({ signal }) =>
    (await request<{ readonly budgets: readonly Budget[] }>('/admin/budgets', { signal })).budgets,
  refetchInterval: 10_000,
})

/** Calls that need it are rejected until it resets. */
export function isUsedUp({ units }: Pick<Budget, 'units'>): boolean {
  return units.some(({ left }) => left !== null && left <= 0)
}
