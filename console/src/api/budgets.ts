import { queryOptions } from '@tanstack/react-query'
import type { AnswerOf } from '../../../src/admin-api/operation.ts'
import type { Budget, READ_BUDGETS } from '../../../src/admin-api/usage.ts'
import { requestJson } from './client.ts'

/*
 * The query for budgets and whether one is used up. Used by several modules. The answer is shared, so that all pages show the same
 * usage.
 */

export type { Budget } from '../../../src/admin-api/usage.ts'

export const budgetsQuery = queryOptions({
  queryKey: ['budgets'],
  queryFn: async ({ signal }) =>
    (await requestJson<AnswerOf<typeof READ_BUDGETS>>('/admin/budgets', { signal })).budgets,
  refetchInterval: 10_000,
})

/** Whether nothing is left of a budget. Its calls are rejected until it resets. */
export function isUsedUp({ units }: Pick<Budget, 'units'>): boolean {
  return units.some(({ left }) => left !== null && left <= 0)
}
