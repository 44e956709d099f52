import { correctedEvent } from '#core/journal/append'
import type { CallCorrected } from '#core/journal/events'
import type {
  CallFilter,
  CallRecord,
  CallSession,
  NewCall,
  OwnCallsPage,
  OwnCallsQuery,
  RetentionPolicy,
} from '#core/ports/store'
import { labelOf } from '#core/runs/events'

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
    protocol: call.protocol,
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
    parent: call.step?.parent,
    root: call.step?.root,
    resumable: call.resumable ?? false,
    waitsFor: undefined,
    ...end,
  }
}

/** Rule 9: what the call is from its next attempt on. Gives what the journal says of it. */
export function correctRow(row: MemoryRow, corrected: NewCall, atMs: number): CallCorrected {
  const event = correctedEvent(row, corrected, atMs)
  const { fingerprint, traceId } = corrected
  Object.assign(row, labelOf(corrected), { fingerprint, traceId })
  return event
}

export function beginAttempt(
  row: MemoryRow,
  begun: {
    readonly as: 'running' | 'parked'
    readonly session: CallSession | undefined
    readonly writer: string
  },
): void {
  row.sessionId = begun.session?.sessionId
  row.state = begun.as
  row.attempt += 1
  row.writer = begun.writer
  row.outcome = undefined
  row.finishedAtMs = undefined
  row.cancelRequested = false
}

/** Rule 13: the clock of a step starts when the call that began it all is final. */
export function isForgettable(
  row: MemoryRow,
  root: MemoryRow | undefined,
  { nowMs, policy }: { readonly nowMs: number; readonly policy: RetentionPolicy },
): boolean {
  const beforeMs = nowMs - (row.expired ? policy.journalMs : policy.resultsMs)
  return [row, root].every((one) => one === undefined || (one.finishedAtMs ?? nowMs) < beforeMs)
}

/** Operators' view, as copies. */
export function newestRows(rows: readonly MemoryRow[], filter: CallFilter): readonly CallRecord[] {
  const { state, tenant, limit } = filter
  return rows
    .filter((row) => state === undefined || row.state === state)
    .filter((row) => tenant === undefined || row.tenant === tenant)
    .reverse()
    .slice(0, limit)
    .map((row) => ({ ...row }))
}

/** A place is how many calls were there before; what was forgotten meanwhile moves it, which at worst shows a call twice. */
export function ownRows(rows: readonly MemoryRow[], query: OwnCallsQuery): OwnCallsPage {
  const { tenant, principal, before = rows.length, limit } = query
  const calls: CallRecord[] = []
  let place = Math.min(before, rows.length)
  while (place > 0 && calls.length < limit) {
    place -= 1
    const row = rows[place]
    if (row?.tenant === tenant && row.principal === principal && row.parent === undefined)
      calls.push({ ...row })
  }
  return place > 0 ? { calls, next: place } : { calls }
}
