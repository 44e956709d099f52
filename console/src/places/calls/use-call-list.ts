import { useQuery } from '@tanstack/react-query'
import { useCallback, useEffect, useRef, useState } from 'react'
import { requestJson } from '../../api/client.ts'
import { type LiveState, useLive } from '../../api/live.ts'
import { queries } from '../../api/queries.ts'
import { announce } from '../../app/announcer.tsx'
import { savedLength } from '../../app/list-position.ts'
import { countOf } from '../../parts/format.ts'
import { useStore } from '../../store.ts'
import type { CallChanges, CallPage } from './api.ts'
import { CallList, type CallListView } from './call-list.ts'
import { type Filters, isSearch, paramsOf } from './query.ts'

/*
 * Joins the list of calls with the server's stream. Used by `call-table.tsx` and `page.tsx`. The list is requested after the stream
 * is open, so that no call is missed.
 */

export interface LiveCallList {
  readonly list: CallList
  readonly view: CallListView
  readonly error: Error | null
  readonly isLoading: boolean
  readonly live: LiveState
  readonly rate: number
  retry(): void
  loadOlder(): void
}

const PAGE = 100
const MAX_PAGE = 1_000
const ANNOUNCED_MS = 10_000

export function useCallList(filters: Filters, isLive: boolean): LiveCallList {
  const [list] = useState(() => new CallList())
  // After Back, the first page is as long as the list was.
  const [firstPage] = useState(() => Math.min(MAX_PAGE, Math.max(PAGE, savedLength())))
  const view = useStore(list.view)
  const filterKey = JSON.stringify(filters)
  const found = useQuery({
    queryKey: ['calls', 'list', filters],
    queryFn: ({ signal }) => {
      list.expectFill()
      return requestJson<CallPage>(`/admin/calls?${paramsOf(filters, { limit: String(firstPage) })}`, {
        signal,
      })
    },
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const { data, refetch } = found
  useEffect(() => {
    if (data !== undefined) list.fill(data)
  }, [data, list])
  // biome-ignore lint/correctness/useExhaustiveDependencies: the list is cleared when the filter changes.
  useEffect(() => () => list.clear(), [filterKey, list])

  const addToBatch = useBatches(filterKey, (batch: readonly CallChanges[]) => {
    list.take(...batch)
    for (const { record } of batch.flatMap(({ calls }) => calls))
      void queries.invalidateQueries({ queryKey: ['call', record], exact: true })
  })
  const path = useStreamPath(filters, filterKey, isLive)
  const live = useLive(path, ({ type, data: text }) => {
    // The list contains the calls that the stream missed.
    if (type === 'ready') void refetch()
    if (type === 'calls') addToBatch(JSON.parse(text))
  })
  useAnnouncement(view.begun, isLive)

  const loadOlder = useCallback(
    () =>
      void list.loadOlder((older, signal) => {
        const params = paramsOf(filters, { limit: String(PAGE) })
        for (const [name, value] of Object.entries(older)) params.set(name, String(value))
        return requestJson<CallPage>(`/admin/calls?${params}`, { signal })
      }),
    [filters, list],
  )

  return {
    ...{ list, view, live, loadOlder },
    rate: useRate(view.begun, isLive),
    error: found.error,
    isLoading: found.isPending,
    retry: () => void refetch(),
  }
}

/** The path contains a start time that changes, so the path is saved until the filter changes. */
function useStreamPath(filters: Filters, filterKey: string, isLive: boolean): string | null {
  const saved = useRef({ filterKey: '', path: '' })
  if (saved.current.filterKey !== filterKey)
    saved.current = { filterKey, path: `/admin/calls/events?${paramsOf(filters)}` }
  return isLive && !isSearch(filters) ? saved.current.path : null
}

const REDRAW_MS = 100

/** The first event is applied at once, later ones in batches: the list is redrawn at most ten times a second. */
function useBatches<Item>(list: string, apply: (items: readonly Item[]) => void): (item: Item) => void {
  const pending = useRef<{ items: Item[]; timer?: ReturnType<typeof setTimeout> }>({ items: [] })
  // biome-ignore lint/correctness/useExhaustiveDependencies: a batch belongs to one list.
  useEffect(
    () => () => {
      clearTimeout(pending.current.timer)
      pending.current = { items: [] }
    },
    [list],
  )
  const flush = (): void => {
    const { items } = pending.current
    const timer = items.length === 0 ? {} : { timer: setTimeout(flush, REDRAW_MS) }
    pending.current = { items: [], ...timer }
    if (items.length > 0) apply(items)
  }
  return (item) => {
    pending.current.items.push(item)
    if (pending.current.timer === undefined) flush()
  }
}

const RATE_MS = 5_000

/** Calls per second, over the last few seconds. */
function useRate(begun: number, isOn: boolean): number {
  const [rate, setRate] = useState(0)
  const latest = useRef(begun)
  latest.current = begun
  useEffect(() => {
    setRate(0)
    if (!isOn) return undefined
    const marks = [{ at: performance.now(), begun: latest.current }]
    const timer = setInterval(() => {
      marks.push({ at: performance.now(), begun: latest.current })
      while (marks.length > 2 && performance.now() - (marks[0]?.at ?? 0) > RATE_MS) marks.shift()
      const [first, last] = [marks[0], marks.at(-1)]
      if (first === undefined || last === undefined) return
      setRate(Math.round(((last.begun - first.begun) * 1_000) / Math.max(1, last.at - first.at)))
    }, 1_000)
    return () => clearInterval(timer)
  }, [isOn])
  return rate
}

/** Announces a count every ten seconds, not each row. */
function useAnnouncement(begun: number, isOn: boolean): void {
  const latest = useRef(begun)
  latest.current = begun
  useEffect(() => {
    if (!isOn) return undefined
    let announced = latest.current
    const timer = setInterval(() => {
      if (latest.current > announced) announce(`${countOf(latest.current - announced, 'new call')}`)
      announced = latest.current
    }, ANNOUNCED_MS)
    return () => clearInterval(timer)
  }, [isOn])
}
