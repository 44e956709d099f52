import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import type { AnswerOf } from '../../../../src/admin-api/operation.ts'
import type { READ_TOOL_USAGE, SHOW_TOOL, ToolDetails } from '../../../../src/admin-api/tools.ts'
import { requestJson } from '../../api/client.ts'
import { boundsOf, type TimeRange, writeRange } from '../../parts/charts/time-range.ts'

/*
 * The queries for one tool and its usage, and the types of their answers. Used by several pages.
 */

export type { ToolDetails, ToolUsage as Usage } from '../../../../src/admin-api/tools.ts'

export type ToolPolicy = ToolDetails['policy']
export type Requirement = ToolDetails['requirements'][number]

/** An untrusted JSON Schema, which may have any members. */
export type Schema = Readonly<Record<string, unknown>>

export function toolQuery(id: string, version: string) {
  return queryOptions({
    queryKey: ['tool', id, version],
    queryFn: async ({ signal }) => {
      const { tool } = await requestJson<AnswerOf<typeof SHOW_TOOL>>(pathOf(id, '', version), { signal })
      return tool
    },
  })
}

const REFETCH_MS = 30_000

/** The key of every query for the usage of a tool. */
export function usageOf(id: string) {
  return ['tool', id, 'usage'] as const
}

/** The usage of a tool, for people who may see calls. */
export function usageQuery(id: string, range: TimeRange) {
  return queryOptions({
    queryKey: [...usageOf(id), writeRange(range)],
    queryFn: async ({ signal }) => {
      const { sinceMs, untilMs } = boundsOf(range)
      const times = `?since=${new Date(sinceMs).toISOString()}&until=${new Date(untilMs).toISOString()}`
      const { usage } = await requestJson<AnswerOf<typeof READ_TOOL_USAGE>>(
        `${pathOf(id, '/usage', '')}${times}`,
        { signal },
      )
      return usage
    },
    placeholderData: keepPreviousData,
    retry: false,
    refetchInterval: REFETCH_MS,
  })
}

function pathOf(id: string, below: string, version: string): string {
  const query = version === '' ? '' : `?version=${encodeURIComponent(version)}`
  return `/admin/tools/${encodeURIComponent(id)}${below}${query}`
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
