import { queryOptions } from '@tanstack/react-query'
import { request } from './client.ts'

/** What the palette needs of a tool. */
export interface ToolRow {
  readonly id: string
  readonly kind: string
  readonly description: string
}

export interface ToolRows {
  readonly tools: readonly ToolRow[]
}

/** All tools that the person may see, in one answer; the browser asks again with the tag of the one it has. */
export const toolsQuery = queryOptions({
  queryKey: ['tools'],
  queryFn: ({ signal }) => request<ToolRows>('/admin/tools', { signal }),
  staleTime: 30_000,
})
