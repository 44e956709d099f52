import type { Outcome } from '#core/outcome'
import type { CallRecord, NewCall, RetentionPolicy } from '#core/ports/store'
import { labelOf } from '#core/runs/run-facts'

/** Rough heap cost of one call with its events, without its result. */
export const BYTES_PER_CALL = 2_048

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** A call as the memory store holds it. */
export interface MemoryRow extends Mutable<CallRecord> {
  cancelRequested: boolean
}

export function newRow(
  call: NewCall,
  end: Pick<CallRecord, 'state' | 'outcome' | 'finishedAtMs' | 'run' | 'writer'>,
): MemoryRow {
  return {
    tenant: call.tenant,
    record: call.record,
    principal: call.principal,
    ...labelOf(call),
    runId: call.place?.runId,
    sessionId: call.session?.sessionId,
    traceId: call.traceId,
    userId: call.userId,
    fingerprint: call.fingerprint,
    tool: call.tool,
    definitionHash: call.definitionHash,
    tier: call.tier,
    replay: call.replay,
    rerunUntilMs: call.rerunUntilMs,
    attempt: 1,
    createdAtMs: call.atMs,
    expired: false,
    late: undefined,
    cancelRequested: false,
    ...end,
  }
}

export function isForgettable(row: MemoryRow, nowMs: number, policy: RetentionPolicy): boolean {
  if (row.finishedAtMs === undefined) return false
  return row.finishedAtMs < nowMs - (row.expired ? policy.journalMs : policy.resultsMs)
}

/** What a call costs, roughly: enough to refuse before the heap is full. */
export function bytesOf(outcome: Outcome | undefined): number {
  return BYTES_PER_CALL + outcomeBytes(outcome)
}

export function outcomeBytes(outcome: Outcome | undefined): number {
  return outcome?.ok === true ? 2 * outcome.valueJson.length : 0
}
