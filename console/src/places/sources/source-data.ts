import { queryOptions } from '@tanstack/react-query'
import type { AnswerOf } from '../../../../src/admin-api/operation.ts'
import type { LIST_PINS, Pin, PinDiff } from '../../../../src/admin-api/pins.ts'
import type { CHANGE_SOURCE, CheckedSource, Source, SourceList } from '../../../../src/admin-api/sources.ts'
import { requestJson } from '../../api/client.ts'
import { untilRefused } from '../../api/queries.ts'

/*
 * The queries for sources and pins, and the requests that change them. Used by several pages. A decision names the hash of the
 * definition on screen.
 */

export type { Pin } from '../../../../src/admin-api/pins.ts'
export type { Source } from '../../../../src/admin-api/sources.ts'

export type SourceSettings = NonNullable<Source['settings']>
/** An entry of an MCP client on the server's machine that reaches a source directly. */
export type Bypass = SourceList['bypasses'][number]

const REFETCH_MS = 5000

const sourcesAnswer = queryOptions({
  queryKey: ['sources', 'list'],
  queryFn: ({ signal }) => requestJson<SourceList>('/admin/sources', { signal }),
  refetchInterval: untilRefused(REFETCH_MS),
})

export const sourcesQuery = { ...sourcesAnswer, select: ({ sources }: SourceList) => sources }
export const bypassesQuery = { ...sourcesAnswer, select: ({ bypasses }: SourceList) => bypasses }

export const pinsQuery = queryOptions({
  queryKey: ['sources', 'pins'],
  queryFn: async ({ signal }) =>
    (await requestJson<AnswerOf<typeof LIST_PINS>>('/admin/pins?waiting=true', { signal })).pins,
  refetchInterval: untilRefused(REFETCH_MS),
})

export function pinQuery({ tool, waiting }: Pin) {
  return queryOptions({
    queryKey: ['sources', 'pin', tool, waiting?.hash],
    queryFn: ({ signal }) => requestJson<PinDiff>(`/admin/pins/${encodeURIComponent(tool)}`, { signal }),
  })
}

export function checkSource(key: string): Promise<CheckedSource> {
  return requestJson(`/admin/sources/${encodeURIComponent(key)}/check`, { method: 'POST', body: {} })
}

export function refreshSource(key: string): Promise<unknown> {
  return requestJson(`/admin/sources/${encodeURIComponent(key)}/refresh`, { method: 'POST', body: {} })
}

export function removeSource(key: string): Promise<unknown> {
  return requestJson(`/admin/sources/${encodeURIComponent(key)}`, { method: 'DELETE' })
}

export function changeSource(key: string, changes: object): Promise<AnswerOf<typeof CHANGE_SOURCE>> {
  return requestJson(`/admin/sources/${encodeURIComponent(key)}/set`, { method: 'POST', body: { changes } })
}

export function addSource(key: string, options: object): Promise<unknown> {
  return requestJson('/admin/sources', { method: 'POST', body: { key, options } })
}

/** Decides a waiting change. The hash ensures that only the definition on screen is decided. */
export function decidePin({ tool, waiting }: Pin, verb: 'accept' | 'reject'): Promise<unknown> {
  const body = { hash: waiting?.hash }
  return requestJson(`/admin/pins/${encodeURIComponent(tool)}/${verb}`, { method: 'POST', body })
}

/** Accepts the changes in `pins`, all from one source. If a definition has changed in the meantime, none is accepted. */
export function acceptAllOf(source: string, pins: readonly Pin[]): Promise<unknown> {
  const hashes = Object.fromEntries(pins.map(({ tool, waiting }) => [tool, waiting?.hash]))
  return requestJson('/admin/pins/accept', { method: 'POST', body: { source, hashes } })
}
