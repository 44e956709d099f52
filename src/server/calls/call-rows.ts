/**
 * Calls as rows of lists, streams and exports, and the beginning of an input on one line: `to: "ann@example.com", amount: 500`.
 * Values whose names suggest credentials are hidden. Reading such a line is journaled like reading the input, because a short input
 * is shown whole.
 */
import type { ChangedCall, ListedCall } from '#admin-api/calls'
import { ownRunId } from '#kernel/base/ids'
import { isSecretName } from '#kernel/base/secret'
import type { CallRecord } from '#kernel/call/call-record'
import { timeOf } from '#server/admin/admin-route'
import { DEFAULT_COST } from '#stages/limits/budgets'
import type { CallSummary } from '#store/call-filter'
import { errorLine } from '#store/calls/error-text'

/** Cost of one run of a tool, by its full id; `undefined` for a tool that is no longer served. */
export type CostOf = (tool: string) => number | undefined

/** The members of a call that lists and the stream of changes share. */
export function renderSummary(call: CallSummary): Omit<ChangedCall, 'by' | 'events' | 'error_code'> {
  const { record, tenant, principal, tool, state, attempt, createdAtMs, finishedAtMs } = call
  return {
    ...{ record, tenant, principal, tool, safety_tier: call.tier, state, attempt },
    parent: call.parent ?? null,
    created_at: timeOf(createdAtMs),
    finished_at: timeOf(finishedAtMs),
    took_ms: finishedAtMs === undefined ? null : finishedAtMs - createdAtMs,
    ran_ms: call.ranMs ?? null,
  }
}

/** A call as lists and exports show it. */
export function renderCall(call: CallRecord, costOf?: CostOf): ListedCall {
  const { outcome } = call
  const error = outcome === undefined || outcome.ok ? undefined : outcome.error
  return {
    ...renderSummary(call),
    call_id: call.callId,
    run_id: call.runId ?? ownRunId(call.record),
    trace_id: call.traceId,
    protocol: call.protocol ?? null,
    user_id: call.userId ?? null,
    by: call.by ?? null,
    session_id: call.sessionId ?? null,
    error_code: error?.code ?? null,
    error_message: error === undefined ? null : errorLine(error.message),
    cost:
      costOf === undefined || call.ranMs === undefined
        ? null
        : (costOf(call.tool) ?? DEFAULT_COST) * call.attempt,
    result_expired: call.expired,
    has_late_result: call.late !== undefined,
  }
}

const MAX_LENGTH = 200
const MAX_TEXT_LENGTH = 60
const MAX_MEMBERS = 12

/** `null` if the input is not kept. */
export function summaryOf(inputJson: string | undefined): string | null {
  if (inputJson === undefined) return null
  const line = lineOf(JSON.parse(inputJson))
  return line.length <= MAX_LENGTH ? line : `${line.slice(0, MAX_LENGTH - 1).toWellFormed()}…`
}

function lineOf(input: unknown): string {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return valueText(input)
  const members = Object.entries(input)
  const shown = members
    .slice(0, MAX_MEMBERS)
    .map(([name, value]) => `${name}: ${isSecretName(name) ? '[hidden]' : valueText(value)}`)
  const more = members.length - shown.length
  return [...shown, ...(more > 0 ? [`… ${more} more`] : [])].join(', ')
}

function valueText(value: unknown): string {
  if (Array.isArray(value))
    return value.length <= 1 && !isNested(value[0]) ? `[${value.map(valueText)}]` : `[${value.length} items]`
  if (typeof value === 'object' && value !== null)
    return `{${Object.keys(value).join(', ').slice(0, MAX_TEXT_LENGTH)}}`
  if (typeof value !== 'string') return String(value)
  const text = value.slice(0, MAX_TEXT_LENGTH).toWellFormed().replaceAll(/\s+/g, ' ')
  return `"${text}${value.length > MAX_TEXT_LENGTH ? '…' : ''}"`
}

function isNested(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}
