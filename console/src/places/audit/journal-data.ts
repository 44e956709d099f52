import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import type { JournalEventPage, ListedEvent } from '../../../../src/admin-api/journal.ts'
import { requestJson } from '../../api/client.ts'
import { untilRefused } from '../../api/queries.ts'
import { boundsOf, type TimeRange } from '../../parts/charts/time-range.ts'
import { MAX_NEW } from './words.ts'

/*
 * The queries for events of the journal: pages of older events, and the events that are newer than the list. `journal.tsx` uses them.
 */

export type { ListedEvent } from '../../../../src/admin-api/journal.ts'

export interface JournalFilters {
  readonly person: string
  readonly action: string
  readonly object: string
  readonly tenant: string
}

const PAGE = 200
const POLL_MS = 4_000

/** The filters as parameters of a request. A range that ends now has no end, so that events of the next moments match. */
export function paramsOf(filters: JournalFilters, range: TimeRange): URLSearchParams {
  const { sinceMs, untilMs } = boundsOf(range)
  const times = {
    since: new Date(sinceMs).toISOString(),
    until: 'last' in range ? '' : new Date(untilMs).toISOString(),
  }
  return new URLSearchParams(Object.entries({ ...filters, ...times }).filter(([, value]) => value !== ''))
}

/** Events in pages, newest first. A page searches a limited number of commits, so it may have few events or none. */
export function eventsQuery(filters: JournalFilters, range: TimeRange) {
  return infiniteQueryOptions({
    queryKey: ['journal', 'events', filters, range],
    queryFn: ({ pageParam, signal }) => {
      const params = paramsOf(filters, range)
      params.set('limit', String(PAGE))
      if (pageParam !== '') params.set('before', pageParam)
      return requestJson<JournalEventPage>(`/admin/journal/events?${params}`, { signal })
    },
    initialPageParam: '',
    getNextPageParam: ({ next }) => next,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  })
}

/** The events that were recorded after the newest one of the list. */
export function newerQuery(
  filters: JournalFilters,
  range: TimeRange,
  newest: ListedEvent | undefined,
  isOn: boolean,
) {
  return queryOptions({
    queryKey: ['journal', 'newer', filters, range, newest?.id ?? ''],
    queryFn: async ({ signal }) => {
      const params = paramsOf(filters, range)
      params.set('limit', String(MAX_NEW))
      const { events } = await requestJson<JournalEventPage>(`/admin/journal/events?${params}`, { signal })
      const index = events.findIndex(({ id }) => id === newest?.id)
      return index === -1 ? events.length : index
    },
    enabled: isOn && 'last' in range,
    refetchInterval: untilRefused(POLL_MS),
    gcTime: 0,
  })
}
