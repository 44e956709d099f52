import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import type { Overview } from '../../../../src/admin-api/overview.ts'
import { requestJson } from '../../api/client.ts'
import { untilRefused } from '../../api/queries.ts'
import { type TimeRange, writeRange } from '../../parts/charts/time-range.ts'

/*
 * The query of the overview, and the time range as it is written in requests, commands and the query of Calls. Only this place uses it.
 */

export type { Overview } from '../../../../src/admin-api/overview.ts'

export function overviewQuery(range: TimeRange) {
  return queryOptions({
    queryKey: ['overview', writeRange(range)],
    queryFn: ({ signal }) => requestJson<Overview>(`/admin/overview?${paramsOf(range)}`, { signal }),
    // The figures of the last range stay until those of the new one arrive.
    placeholderData: keepPreviousData,
    retry: false,
    refetchInterval: untilRefused(isLong(range) ? SLOW_MS : LIVE_MS),
  })
}

const LIVE_MS = 5_000
/** Figures of a long range change little within a minute. */
const SLOW_MS = 30_000
const DAY_MS = 86_400_000

function isLong(range: TimeRange): boolean {
  return 'last' in range ? range.lengthMs > DAY_MS : range.untilMs < Date.now()
}

function paramsOf(range: TimeRange): string {
  if ('last' in range) return `range=${range.last}`
  const { sinceMs, untilMs } = range
  return `since=${new Date(sinceMs).toISOString()}&until=${new Date(untilMs).toISOString()}`
}

export function commandOf(range: TimeRange): string {
  if ('last' in range) return `collet overview --range ${range.last}`
  const { sinceMs, untilMs } = range
  return `collet overview --since ${new Date(sinceMs).toISOString()} --until ${new Date(untilMs).toISOString()}`
}

/** The query of Calls for the range, after other filters. */
export function callsQuery(range: TimeRange, ...filters: readonly string[]): { readonly q: string } {
  const times =
    'last' in range
      ? [`since:${range.last}`]
      : [`since:${new Date(range.sinceMs).toISOString()}`, `until:${new Date(range.untilMs).toISOString()}`]
  return { q: [...filters, ...times].join(' ') }
}

/** The share of errors in percent; `null` without calls. */
export function errorShare({ calls, errors }: Pick<Overview, 'calls' | 'errors'>): number | null {
  return calls === 0 ? null : (errors / calls) * 100
}

export function shownShare(share: number | null): string {
  if (share === null) return '–'
  return share.toFixed(share > 0 && share < 10 ? 1 : 0)
}
