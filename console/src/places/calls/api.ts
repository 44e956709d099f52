import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { request } from '../../api/client.ts'
import { holdsScope, useSession } from '../../api/session.ts'
import { formatDuration } from '../../parts/format.ts'
import type { TierName } from '../../parts/meaning.tsx'
import { type CallStateName, type Filters, paramsOf } from './query.ts'

/** A call in a list, without input and outcome. */
export interface CallRow {
  readonly record: string
  readonly tenant: string
  readonly principal: string
  /** The operator who ran it in the console under the principal's name. */
  readonly by?: string | null
  readonly tool: string
  readonly safety_tier: TierName
  readonly state: CallStateName
  readonly attempt: number
  /** For a step: the call of its workflow. */
  readonly parent: string | null
  readonly created_at: string
  readonly finished_at: string | null
  /** From the request to the end, including the time it waited for people. */
  readonly took_ms: number | null
  /** How long the tool ran; `null` for a call that did not run, or that a person settled. */
  readonly ran_ms: number | null
  readonly error_code: string | null
}

/** The caller, and the operator who used that name: "operator, as key:alice". */
export function callerText({ principal, by }: Pick<CallRow, 'principal' | 'by'>): string {
  return by == null ? principal : `${by}, as ${principal}`
}

/** The stream leaves out the caller's call id. */
export interface ListedCall extends CallRow {
  readonly call_id: string
}

export interface CallPage {
  readonly calls: readonly CallRow[]
  readonly next: number | null
}

/** Events of `GET /admin/calls/events`. */
export interface CallChanges {
  readonly calls: readonly (CallRow & { readonly events: readonly string[] })[]
  readonly left: readonly string[]
}

export interface CallDetails extends ListedCall {
  readonly run_id: string
  readonly trace_id: string
  readonly protocol: string | null
  readonly user_id: string | null
  readonly definition_hash: string
  readonly session_id: string | null
  readonly waits_for: string | null
  readonly timeline: readonly TimelineFact[]
  readonly steps: readonly StepCall[]
  readonly journal: readonly JournalRow[]
  /** Who decided; `null` without an approval, or for people who may not see approvals. */
  readonly approval: {
    readonly id: string
    readonly decisions: readonly {
      readonly by: string
      readonly action: 'grant' | 'reject' | 'override'
      readonly reason: string | null
      readonly at: string
    }[]
  } | null
  readonly contents: 'shown' | 'hidden' | 'unasked' | 'gone'
  readonly input?: unknown
  readonly outcome?: CallOutcome
  readonly late_outcome?: CallOutcome
}

/** A step of a workflow, with the events of its run. */
export interface StepCall extends ListedCall {
  readonly timeline: readonly TimelineFact[]
}

interface TimelineFact {
  readonly at: string
  readonly event: string
  readonly facts: Readonly<Record<string, unknown>>
}

/** One commit of the journal, with its events of this call. */
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
  /** Rejected requests by error code. */
  readonly rejected: Readonly<Record<string, number>>
  readonly buckets: readonly {
    readonly at: string
    readonly states: StateCounts
    readonly rejected: number
  }[]
  readonly whole: boolean
}

export type StateCounts = Readonly<Partial<Record<CallStateName, number>>>

const BUCKETS = 60
const MIN_STATS_MS = 4_000
/** The server counts calls one by one, so slow answers are polled less often. */
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
      isLive ? Math.max(MIN_STATS_MS, (state.data?.askedMs ?? 0) * STATS_SHARE) : false,
  })
}

/** Rejected requests of one caller, tool and cause within one minute. */
export interface RejectedRow {
  readonly no: number
  readonly tenant: string
  readonly principal: string
  readonly tool: string | null
  readonly code: string
  readonly requests: number
  readonly last_at: string
  readonly message: string
}

export function rejectedQuery({ state: _rejected, ...filters }: Filters, isLive: boolean) {
  return queryOptions({
    queryKey: ['calls', 'rejected', filters],
    queryFn: async ({ signal }) =>
      (
        await request<{ readonly rejected: readonly RejectedRow[] }>(
          `/admin/calls/rejected?${paramsOf(filters, { limit: '500' })}`,
          { signal },
        )
      ).rejected,
    placeholderData: keepPreviousData,
    refetchInterval: isLive ? MIN_STATS_MS : false,
  })
}

/** Reading this is not recorded; input and outcome are requested by `contentsQuery`. */
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

/** Requested once, by a person: reading it is recorded in the journal. Never refetched automatically. */
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

/** How long the tool ran, without the time the call waited for people. */
export function runTimeText({ ran_ms: ran }: Pick<CallRow, 'ran_ms'>): string {
  return ran === null ? '—' : formatTook(ran)
}

/** Times of calls are whole milliseconds, and most calls take less than a few. */
export function formatTook(ms: number): string {
  if (ms < 1) return '<1 ms'
  return ms < 10 ? `${ms} ms` : formatDuration(ms)
}

/** Whether the person holds a scope, to decide what to offer; the server checks it. */
export function useMay(scope: string): boolean {
  return holdsScope(useSession()?.principal, scope)
}
