import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import type {
  CallDetails,
  CallStats,
  ChangedCall,
  LIST_ALL_CALLS,
  LIST_REJECTED_REQUESTS,
  ListedCall,
  SHOW_CALL,
} from '../../../../src/admin-api/calls.ts'
import type { AnswerOf } from '../../../../src/admin-api/operation.ts'
import { requestJson } from '../../api/client.ts'
import { holdsScope, useSession } from '../../api/session.ts'
import { formatDuration } from '../../parts/format.ts'
import { type Filters, paramsOf } from './query.ts'

/*
 * The queries for calls and the texts of their members. Used by several pages. Contents are requested only by a person, because
 * each reading is recorded.
 */

export type {
  CallChanges,
  CallDetails,
  CallOutcome,
  CallStats,
  ListedCall,
  RejectedRequest as RejectedRow,
} from '../../../../src/admin-api/calls.ts'

/** The members of a call that both the list and the stream contain. */
export type CallRow = Omit<ChangedCall, 'events' | 'by'> & {
  readonly by?: string | null | undefined
} & { readonly [Member in Detail]?: ListedCall[Member] | undefined }

/** Members that only the list has; rows in view get them from another request. */
type Detail = 'call_id' | 'protocol' | 'cost' | 'error_message' | 'input_summary'
export type StepCall = CallDetails['steps'][number]
export type JournalRow = CallDetails['journal'][number]
export type StateCounts = CallStats['states']

export interface CallPage {
  readonly calls: readonly CallRow[]
  readonly next: number | null
}

/** The caller, after the operator who ran the call as that caller: "operator, as key:alice". */
export function callerText({ principal, by }: Pick<CallRow, 'principal' | 'by'>): string {
  return by == null ? principal : `${by}, as ${principal}`
}

const BUCKETS = 60
const MIN_STATS_MS = 4_000
/** The server counts calls one by one, so the interval is at least this many times the duration of the last request. */
const STATS_INTERVAL_FACTOR = 20

export function statsQuery(filters: Filters, isLive: boolean) {
  return queryOptions({
    queryKey: ['calls', 'stats', filters],
    queryFn: async ({ signal }) => {
      const startedAt = performance.now()
      const stats = await requestJson<CallStats>(
        `/admin/calls/stats?${paramsOf(filters, { buckets: String(BUCKETS) })}`,
        {
          signal,
        },
      )
      return { ...stats, requestMs: performance.now() - startedAt }
    },
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) =>
      isLive ? Math.max(MIN_STATS_MS, (state.data?.requestMs ?? 0) * STATS_INTERVAL_FACTOR) : false,
  })
}

export function rejectedQuery({ state: _rejected, ...filters }: Filters, isLive: boolean) {
  return queryOptions({
    queryKey: ['calls', 'rejected', filters],
    queryFn: async ({ signal }) =>
      (
        await requestJson<AnswerOf<typeof LIST_REJECTED_REQUESTS>>(
          `/admin/calls/rejected?${paramsOf(filters, { limit: '500' })}`,
          { signal },
        )
      ).rejected,
    placeholderData: keepPreviousData,
    refetchInterval: isLive ? MIN_STATS_MS : false,
  })
}

/** Rows with their details. With inputs, the server journals that they were read. */
export async function requestRows(
  records: readonly string[],
  withInputs: boolean,
): Promise<readonly ListedCall[]> {
  const params = new URLSearchParams({ records: records.join(','), ...(withInputs ? { inputs: 'yes' } : {}) })
  return (await requestJson<AnswerOf<typeof LIST_ALL_CALLS>>(`/admin/calls?${params}`)).calls
}

/** A call without input and outcome. Reading it is not recorded, unlike `contentsQuery`. */
export function callQuery(record: string) {
  return queryOptions({
    queryKey: ['call', record],
    queryFn: async ({ signal }) =>
      (
        await requestJson<AnswerOf<typeof SHOW_CALL>>(
          `/admin/calls/${encodeURIComponent(record)}?contents=no`,
          {
            signal,
          },
        )
      ).call,
  })
}

/** A call with input and outcome, requested only by a person, because the journal records each reading. */
export function contentsQuery(record: string) {
  return queryOptions({
    queryKey: ['call contents', record],
    queryFn: async () =>
      (await requestJson<AnswerOf<typeof SHOW_CALL>>(`/admin/calls/${encodeURIComponent(record)}`)).call,
    enabled: false,
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  })
}

/** How long the tool ran, without the time that the call waited for people. */
export function runTimeText({ ran_ms: ran }: Pick<CallRow, 'ran_ms'>): string {
  return ran === null ? '—' : formatTook(ran)
}

/** Formats the duration of a call, which is measured in whole milliseconds. */
export function formatTook(ms: number): string {
  if (ms < 1) return '<1 ms'
  return ms < 10 ? `${ms} ms` : formatDuration(ms)
}

/** Whether the person has a scope. It only decides what the page offers, because the server checks every request. */
export function useHoldsScope(scope: string): boolean {
  return holdsScope(useSession()?.principal, scope)
}
