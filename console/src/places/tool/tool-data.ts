import { queryOptions } from '@tanstack/react-query'
import type { AnswerOf } from '../../../../src/admin-api/operation.ts'
import type { READ_TOOL_USAGE, SHOW_TOOL, ToolDetails } from '../../../../src/admin-api/tools.ts'
import { request } from '../../api/client.ts'

export type { ToolDetails, ToolUsage as Usage } from '../../../../src/admin-api/tools.ts'

export type ToolPolicy = ToolDetails['policy']
export type Requirement = ToolDetails['requirements'][number]

/** A JSON Schema, of which nothing is known beforehand. */
export type Schema = Readonly<Record<string, unknown>>

export function toolQuery(id: string, version: string) {
  return queryOptions({
    queryKey: ['tool', id, version],
    queryFn: async ({ signal }) => {
      const { tool } = await request<AnswerOf<typeof SHOW_TOOL>>(pathOf(id, '', version), { signal })
      return tool
    },
  })
}

const LOOK_AGAIN_MS = 30_000

/** For people who may see calls; the page works without them. */
export function usageQuery(id: string) {
  return queryOptions({
    queryKey: ['tool', id, 'usage'],
    queryFn: async ({ signal }) => {
      const { usage } = await request<AnswerOf<typeof READ_TOOL_USAGE>>(pathOf(id, '/usage', ''), { signal })
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
