import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { request } from './client.ts'

/** Public facts of the server. */
export interface ServerAbout {
  readonly version: string
  readonly url: string
  readonly store: 'SQLite' | 'PostgreSQL' | 'memory'
  readonly needs_key: boolean
  readonly own_machine: boolean
  readonly protocols: readonly Door[]
  readonly toolsets: readonly {
    readonly name: string
    readonly description: string | null
    readonly url: string
  }[]
  readonly clients: readonly ClientConfig[]
  readonly kept: { readonly journal_days: number; readonly result_hours: number }
}

/** The address of one protocol. */
export interface Door {
  readonly name: string
  readonly title: string
  readonly url: string
}

/** Configuration text for one client or library. */
export interface ClientConfig {
  readonly name: string
  readonly title: string
  readonly kind: 'json' | 'toml' | 'yaml' | 'terminal' | 'code'
  readonly place: string
  readonly text: string
  readonly command: string | null
  /** Opens the client, which asks whether to add the server. */
  readonly link: string | null
  readonly after: string
}

/** Clients connect to `toolset`, or to all tools if it is empty. */
export function serverQuery(toolset = '') {
  return queryOptions({
    queryKey: ['server', toolset],
    queryFn: ({ signal }) =>
      request<ServerAbout>(
        `/admin/server${toolset === '' ? '' : `?toolset=${encodeURIComponent(toolset)}`}`,
        {
          signal,
        },
      ),
    staleTime: 60_000,
    placeholderData: keepPreviousData,
  })
}

/** Whether there were calls among those that the person may see. */
export interface Beginning {
  readonly has_calls: boolean
  readonly agent_call: { readonly record: string; readonly tool: string; readonly at: string } | null
}

export const beginningQuery = queryOptions({
  queryKey: ['server', 'beginning'],
  queryFn: ({ signal }) => request<Beginning>('/admin/server/beginning', { signal }),
  staleTime: 0,
})
