import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import type { AnswerOf } from '../../../src/admin-api/operation.ts'
import type { ToolListCost, ToolSearchAnswer } from '../../../src/admin-api/tools.ts'
import type { READ_USAGE } from '../../../src/admin-api/usage.ts'
import { SearchableTools, type ToolListing } from '../../../src/kernel/tool/listing.ts'
import { fetchOk, requestJson } from './client.ts'

/*
 * The queries for the list of tools and their numbers of calls. Used by several pages. The search index is built again only if the
 * list has changed.
 */

export type { ToolListCost, ToolSearchAnswer } from '../../../src/admin-api/tools.ts'
// The list of tools is searched with the same module as `collet tools`.
export {
  type Condition,
  FILTERS,
  type FoundTool,
  ORDERS,
  type Order,
  SearchableTools,
  type ToolFilters,
  type ToolListing,
} from '../../../src/kernel/tool/listing.ts'

/** The number of tools, without the list. */
export const toolCountQuery = queryOptions({
  queryKey: ['tools', 'count'],
  queryFn: async ({ signal }) =>
    (await requestJson<{ readonly count: number }>('/admin/tool-count', { signal })).count,
})

/** What the list of a toolset, or of all tools, costs a model. */
export function toolCostQuery(toolset = '') {
  return queryOptions({
    queryKey: ['tools', 'cost', toolset],
    queryFn: ({ signal }) =>
      requestJson<ToolListCost>(
        `/admin/tool-cost${toolset === '' ? '' : `?toolset=${encodeURIComponent(toolset)}`}`,
        { signal },
      ),
  })
}

/** What a model finds with a text, in a toolset or in all tools. */
export function toolSearchQuery(toolset: string, text: string) {
  const parameters = new URLSearchParams({ q: text, ...(toolset === '' ? {} : { toolset }) })
  return queryOptions({
    queryKey: ['tools', 'search', toolset, text],
    queryFn: ({ signal }) => requestJson<ToolSearchAnswer>(`/admin/tool-search?${parameters}`, { signal }),
    enabled: text.trim() !== '',
    placeholderData: keepPreviousData,
  })
}

/** All tools that the person may see, in one answer; the browser revalidates it by its ETag. */
export const toolsQuery = queryOptions({
  queryKey: ['tools'],
  async queryFn({ signal, client }) {
    const response = await fetchOk('/admin/tools', { signal })
    const tag = response.headers.get('etag')
    if (tag !== null && tag === known?.tag) return known.tools
    // Server and page are from the same build, so the type of the answer is trusted.
    const listing: ToolListing = JSON.parse(await response.text())
    const tools = await SearchableTools.inParts(listing, yieldToBrowser)
    known = tag === null ? undefined : { tag, tools }
    client.setQueryData(toolCountQuery.queryKey, tools.listing.tools.length)
    return tools
  },
  structuralSharing: false,
})

/** Lets the browser paint and handle keys. */
function yieldToBrowser(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve))
}

/** The last list, kept so that the index is not rebuilt for an unchanged answer. */
let known: { readonly tag: string; readonly tools: SearchableTools } | undefined

const DAY_MS = 86_400_000

/** Number of calls to each tool in the last 24 hours, for people who may see calls. */
export const toolCallsQuery = queryOptions({
  queryKey: ['tools', 'calls'],
  async queryFn({ signal }) {
    const since = new Date(Date.now() - DAY_MS).toISOString()
    const { usage } = await requestJson<AnswerOf<typeof READ_USAGE>>(`/admin/usage?since=${since}`, {
      signal,
    })
    const calls = new Map<string, number>()
    for (const { tool, calls: more } of usage) {
      const [base = ''] = tool.split('@', 1)
      calls.set(base, (calls.get(base) ?? 0) + more)
    }
    return calls
  },
  staleTime: 60_000,
  structuralSharing: false,
})
