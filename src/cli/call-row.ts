import { z } from 'zod'
import { ownRunId } from '#core/ids'
import type { JsonObject } from '#core/json'
import type { CallRecord } from '#core/ports/store'

/** A call as operators see it: what happened, without input and output. */
export interface CallRow {
  readonly record: string
  readonly callId: string
  readonly runId: string
  readonly traceId: string
  readonly protocol: string | null
  readonly userId: string | null
  readonly tenant: string
  readonly principal: string
  readonly tool: string
  readonly tier: string
  readonly state: string
  readonly attempt: number
  readonly createdAt: string
  readonly finishedAt: string | null
  readonly errorCode: string | null
}

export const CALL_HEADINGS = ['RECORD', 'STATE', 'TOOL', 'PRINCIPAL', 'CREATED', 'ERROR', 'CALL ID'] as const

export function callCells(row: CallRow): readonly string[] {
  const { record, state, tool, principal, createdAt, errorCode, callId } = row
  return [record, state, tool, principal, createdAt, errorCode ?? '', callId]
}

export function rowOfRecord(call: CallRecord): CallRow {
  const { record, callId, tenant, principal, tool, tier, state, attempt, outcome, finishedAtMs } = call
  return {
    record,
    callId,
    runId: call.runId ?? ownRunId(record),
    traceId: call.traceId,
    protocol: call.protocol ?? null,
    userId: call.userId ?? null,
    tenant,
    principal,
    tool,
    tier,
    state,
    attempt,
    createdAt: new Date(call.createdAtMs).toISOString(),
    finishedAt: finishedAtMs === undefined ? null : new Date(finishedAtMs).toISOString(),
    errorCode: outcome === undefined || outcome.ok ? null : outcome.error.code,
  }
}

const WIRE_LIST = z.object({
  calls: z.array(
    z.object({
      record: z.string(),
      call_id: z.string(),
      run_id: z.string(),
      trace_id: z.string(),
      protocol: z.string().nullable(),
      user_id: z.string().nullable(),
      tenant: z.string(),
      principal: z.string(),
      tool: z.string(),
      safety_tier: z.string(),
      state: z.string(),
      attempt: z.number(),
      created_at: z.string(),
      finished_at: z.string().nullable(),
      error_code: z.string().nullable(),
    }),
  ),
})

/** The answer of `GET /admin/calls`; `undefined` when it is something else. */
export function rowsOfAnswer(answer: JsonObject): readonly CallRow[] | undefined {
  const parsed = WIRE_LIST.safeParse(answer)
  return parsed.data?.calls.map((call) => ({
    record: call.record,
    callId: call.call_id,
    runId: call.run_id,
    traceId: call.trace_id,
    protocol: call.protocol,
    userId: call.user_id,
    tenant: call.tenant,
    principal: call.principal,
    tool: call.tool,
    tier: call.safety_tier,
    state: call.state,
    attempt: call.attempt,
    createdAt: call.created_at,
    finishedAt: call.finished_at,
    errorCode: call.error_code,
  }))
}
