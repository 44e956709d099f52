import { queryOptions } from '@tanstack/react-query'
import type { AnswerOf } from '../../../../src/admin-api/operation.ts'
import type { READ_TOOL_USAGE, SHOW_TOOL, ToolDetails } from '../../../../src/admin-api/tools.ts'
import { requestJson } from '../../api/client.ts'

/*
 * The queries for one tool and its usage, and the types of their answers. Several pages use it.
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

/** The usage of a tool, for people who may see calls. */
export function usageQuery(id: string) {
  return queryOptions({
    queryKey: ['tool', id, 'usage'],
    queryFn: async ({ signal }) => {
      const { usage } = await requestJson<AnswerOf<typeof READ_TOOL_USAGE>>(pathOf(id, '/usage', ''), {
        signal,
      })
      return usage
    },
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
