import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { request } from '../../api/client.ts'
import { holdsScope, useSession } from '../../api/session.ts'
import { formatDuration } from '../../parts/format.ts'
import type { TierName } from '../../parts/meaning.tsx'
import { type CallStateName, type Filters, paramsOf } from './query.ts'

/** A call in a list: what happened, without input and outcome. */
export interface CallRow {
  readonly record: string
  readonly tenant: string
  readonly principal: string
  readonly tool: string
  readonly safety_tier: TierName
  readonly state: CallStateName
  readonly attempt: number
  /** The workflow's call, of a step. */
  readonly parent: string | null
  readonly created_at: string
  readonly finished_at: string | null
  readonly took_ms: number | null
  readonly error_code: string | null
}

/** The stream does not tell the id that its caller gave it. */
export interface ListedCall extends CallRow {
  readonly call_id: string
}

export interface CallPage {
  readonly calls: readonly CallRow[]
  readonly next: number | null
}

/** What `GET /admin/calls/events` tells. */
export interface CallChanges {
  readonly calls: readonly (CallRow & { readonly events: readonly string[] })[]
  readonly left: readonly string[]
}

/** One call, whole. */
export interface CallDetails extends ListedCall {
  readonly run_id: string
  readonly trace_id: string
  readonly protocol: string | null
  readonly user_id: string | null
  readonly ran_ms: number | null
  readonly definition_hash: string
  readonly session_id: string | null
  readonly waits_for: string | null
  readonly timeline: readonly TimelineFact[]
  readonly steps: readonly StepCall[]
  readonly journal: readonly JournalRow[]
  readonly contents: 'shown' | 'hidden' | 'unasked' | 'gone'
  readonly input?: unknown
  readonly outcome?: CallOutcome
  readonly late_outcome?: CallOutcome
}

/** A step of a workflow, with what its run tells of it. */
export interface StepCall extends ListedCall {
  readonly timeline: readonly TimelineFact[]
}

interface TimelineFact {
  readonly at: string
  readonly event: string
  readonly facts: Readonly<Record<string, unknown>>
}

/** One commit of the journal, with what it says of the call. */
export interface JournalRow {
  readonly writer: string
  readonly group: number
  readonly link: string
  readonly at: string
  readonly events: readonly (Readonly<Record<string, unknown>> & {
    readonly type: string
    readonly at: number
  })[]
}

export type CallOutcome =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: Readonly<Record<string, unknown>> & { readonly message: string } }

export interface CallStats {
  readonly since: string
  readonly until: string
  readonly bucket_ms: number
  readonly states: StateCounts
  readonly buckets: readonly { readonly at: string; readonly states: StateCounts }[]
  readonly whole: boolean
}

export type StateCounts = Readonly<Partial<Record<CallStateName, number>>>

const BUCKETS = 60
const LEAST_STATS_MS = 4_000
/** The server counts calls one by one, so it is asked again the later, the longer it took. */
const STATS_SHARE = 20

export function statsQuery(filters: Filters, isLive: boolean) {
  return queryOptions({
    queryKey: ['calls', 'stats', filters],
    queryFn: async ({ signal }) => {
      const startedAt = performance.now()
      const stats = await request<CallStats>(
        `/admin/calls/stats?${paramsOf(filters, { buckets: String(BUCKETS) })}`,
        {
          signal,
        },
      )
      return { ...stats, askedMs: performance.now() - startedAt }
    },
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) =>
      isLive ? Math.max(LEAST_STATS_MS, (state.data?.askedMs ?? 0) * STATS_SHARE) : false,
  })
}

/** Looking leaves no trace; input and outcome are asked for by `contentsQuery`. */
export function callQuery(record: string) {
  return queryOptions({
    queryKey: ['call', record],
    queryFn: async ({ signal }) =>
      (
        await request<{ readonly call: CallDetails }>(
          `/admin/calls/${encodeURIComponent(record)}?contents=no`,
          { signal },
        )
      ).call,
  })
}

/** Asked for by a person, once: that somebody looked is journaled. Never by itself, and never again behind their back. */
export function contentsQuery(record: string) {
  return queryOptions({
    queryKey: ['call contents', record],
    queryFn: async () =>
      (await request<{ readonly call: CallDetails }>(`/admin/calls/${encodeURIComponent(record)}`)).call,
    enabled: false,
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  })
}

/** Times of calls are whole milliseconds, and most calls take less than a few. */
export function formatTook(ms: number): string {
  if (ms < 1) return '<1 ms'
  return ms < 10 ? `${ms} ms` : formatDuration(ms)
}

/** Whether the person has a scope, for what to offer; the server decides. */
export function useMay(scope: string): boolean {
  return holdsScope(useSession()?.principal, scope)
}
