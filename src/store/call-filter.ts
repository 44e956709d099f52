import type { CallState } from '#kernel/call/call'
import type { CallRecord } from '#kernel/call/call-record'
import type { CallSubject } from '#kernel/journal/events'
import { matchesGlob } from '#kernel/tool/toolsets'

/**
 * The operator's filter for calls, matched in memory for lists that are followed live. `operator-views.ts` runs the same filter
 * as a query, and the store contract compares the two.
 */

/** An absent member matches every call. */
export interface CallFilter {
  readonly states?: readonly CallState[] | undefined
  readonly tenant?: string | undefined
  readonly principal?: string | undefined
  /** Matches dots and underscores alike, in any case, and every version unless it names one. `*` matches any text. */
  readonly tool?: string | undefined
  readonly sinceMs?: number | undefined
  readonly untilMs?: number | undefined
  readonly took?: TookFilter | undefined
  /** Only calls before this position; absent: starts with the newest. */
  readonly before?: number | undefined
  readonly limit: number
}

/** Filters by run time. For a running call this is the time since it was created; calls that did not run, or that an operator settled, never match. */
interface TookFilter {
  /** Inclusive lower limit. */
  readonly minMs?: number | undefined
  /** Exclusive upper limit. */
  readonly belowMs?: number | undefined
  readonly nowMs: number
}

/** Counts calls by state and by interval of `bucketMs`. */
export interface TallyQuery extends Omit<CallFilter, 'limit' | 'sinceMs'> {
  readonly sinceMs: number
  readonly bucketMs: number
  /** Start of the first interval, at or before `sinceMs`; absent: `sinceMs`. */
  readonly originMs?: number
}

/** The members of a call that are not sealed: enough for one line in a list, and cheap to read. */
export type CallSummary = CallSubject &
  Pick<CallRecord, 'tier' | 'state' | 'createdAtMs' | 'finishedAtMs' | 'ranMs' | 'parent'>

/** A filter for future calls. */
export type FollowedCalls = Omit<CallFilter, 'before' | 'limit'>

/** Matches by everything except the state, because a call in the list must be updated even if its new state does not match. */
export function matchesExceptState(filter: FollowedCalls, call: CallSummary, nowMs: number): boolean {
  const { tenant, principal, tool, sinceMs = -Infinity, untilMs = Infinity, took } = filter
  return (
    (tenant === undefined || call.tenant === tenant) &&
    (principal === undefined || call.principal === principal) &&
    (tool === undefined || matchesTool(tool, call.tool)) &&
    call.createdAtMs >= sinceMs &&
    call.createdAtMs < untilMs &&
    (took === undefined || isWithin(took, call, nowMs))
  )
}

function isWithin(
  { minMs = 0, belowMs = Infinity }: TookFilter,
  { state, createdAtMs, ranMs }: CallSummary,
  nowMs: number,
): boolean {
  const runMs = state === 'running' ? nowMs - createdAtMs : ranMs
  return runMs !== undefined && runMs >= minMs && runMs < belowMs
}

/** Matches every version of a tool unless one is given. */
function matchesTool(filter: string, tool: string): boolean {
  const [pattern, name] = [normalizeToolName(filter), normalizeToolName(tool)]
  return matchesGlob(name, pattern) || matchesGlob(name, `${pattern}@*`)
}

/** Returns the same name for `Crm.Find`, `Crm_Find` and `crm.find`, with or without the prefix of a catalog id. */
export function normalizeToolName(tool: string): string {
  return tool
    .slice(tool.lastIndexOf(':') + 1)
    .replaceAll('.', '_')
    .toLowerCase()
}

/** `matchesTool` as an SQL condition on a column; its parameters come from `toolValues`. */
export function toolCondition(column: string): string {
  const tool = `lower(replace(${column}, '.', '_'))`
  return `(CAST(? AS TEXT) IS NULL OR ${tool} LIKE ? ESCAPE '!' OR ${tool} LIKE ? ESCAPE '!')`
}

/** Patterns for `LIKE`, with its special characters escaped. */
export function toolValues(tool: string | undefined): readonly (string | null)[] {
  if (tool === undefined) return [null, null, null]
  const pattern = normalizeToolName(tool)
    .replaceAll(/[!%_]/g, (letter) => `!${letter}`)
    .replaceAll('*', '%')
  return [pattern, pattern, `${pattern}@%`]
}
