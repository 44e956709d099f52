import { ownRunId } from '#kernel/base/ids'
import type { CallError, CallState } from '#kernel/call/call'
import type { CallRecord } from '#kernel/call/call-record'
import type { CallSubject } from '#kernel/journal/events'
import { matchesGlob } from '#kernel/tool/toolsets'
import { patternOfError } from '#store/calls/error-text'

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
  readonly search?: CallSearch | undefined
  /** Only calls before this position; absent: starts with the newest. */
  readonly before?: number | undefined
  readonly limit: number
}

/**
 * Finds calls by what people have in hand. Most of these texts are stored sealed, so they are compared in memory, after
 * everything else. Lists that are followed live have no such filter.
 */
export interface CallSearch {
  /** Any id of a call: its record, call id, run, session, trace, user, or workflow. */
  readonly id?: string | undefined
  readonly callId?: string | undefined
  readonly runId?: string | undefined
  readonly sessionId?: string | undefined
  readonly userId?: string | undefined
  readonly traceId?: string | undefined
  readonly protocol?: string | undefined
  /** Record of the workflow's call. */
  readonly parent?: string | undefined
  readonly code?: string | undefined
  /** Part of the error message, in any case; a message without its variable parts (`error-text.ts`) matches too. */
  readonly message?: string | undefined
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
export type FollowedCalls = Omit<CallFilter, 'before' | 'limit' | 'search'>

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

/** The ids of a call, as a search compares them. */
export type CallIds = Pick<
  CallRecord,
  'record' | 'callId' | 'runId' | 'sessionId' | 'userId' | 'traceId' | 'protocol' | 'parent' | 'root'
>

/** Matches everything that does not need the outcome. */
export function matchesIds(search: CallSearch, call: CallIds): boolean {
  const { callId, sessionId, userId, traceId, protocol, parent } = search
  return (
    (callId === undefined || call.callId === callId) &&
    (search.runId === undefined || runOf(call) === search.runId) &&
    (sessionId === undefined || call.sessionId === sessionId) &&
    (userId === undefined || call.userId === userId) &&
    (traceId === undefined || call.traceId === traceId) &&
    (protocol === undefined || call.protocol === protocol) &&
    (parent === undefined || call.parent === parent) &&
    (search.id === undefined || hasId(call, search.id))
  )
}

function runOf({ runId, record }: CallIds): string {
  return runId ?? ownRunId(record)
}

function hasId(call: CallIds, id: string): boolean {
  const { record, callId, sessionId, userId, traceId, parent, root } = call
  return [record, callId, runOf(call), sessionId, userId, traceId, parent, root].includes(id)
}

export function matchesError(search: CallSearch, error: Pick<CallError, 'code' | 'message'>): boolean {
  const { code, message } = search
  if (code !== undefined && error.code !== code) return false
  if (message === undefined) return true
  const part = message.toLowerCase()
  return [error.message, patternOfError(error.message)].some((text) => text.toLowerCase().includes(part))
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
