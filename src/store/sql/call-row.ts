import type { Failure } from '#core/outcome'
import type { CallRecord } from '#core/ports/store'
import { StoreError } from '#core/store-error'
import type { Slice } from './open-group.ts'
import { outcomeFromText, outcomeToText } from './outcome-text.ts'
import { integer, optionalInteger, type Row, text, word } from './row.ts'

export const CALL_STATES = ['parked', 'running', 'succeeded', 'failed', 'released', 'ambiguous'] as const
const TIERS = ['pure', 'read', 'write', 'exec'] as const
const REPLAYS = ['deterministic', 'idempotent', 'non-deterministic'] as const

/** Reads sealed text by its place. */
export interface SealedText {
  read(segment: 'callers' | 'payload', slice: Slice): string
}

export function callFromRow(row: Row, sealed: SealedText): CallRecord {
  const expired = integer(row, 'expired') === 1
  const outcome = sliceOf(row, 'outcome')
  const late = sliceOf(row, 'late')
  return {
    tenant: text(row, 'tenant'),
    record: text(row, 'record'),
    principal: text(row, 'principal'),
    ...callerOf(row, sealed, expired),
    fingerprint: text(row, 'fingerprint'),
    tool: text(row, 'tool'),
    definitionHash: text(row, 'definition'),
    tier: word(row, 'tier', TIERS),
    replay: word(row, 'replay', REPLAYS),
    rerunUntilMs: integer(row, 'rerun_until'),
    state: word(row, 'state', CALL_STATES),
    attempt: integer(row, 'attempt'),
    writer: text(row, 'writer_id'),
    createdAtMs: integer(row, 'created_at'),
    finishedAtMs: optionalInteger(row, 'finished_at'),
    outcome:
      outcome === undefined ? undefined : outcomeFromText(ownText(row, sealed.read('payload', outcome))),
    late: late === undefined ? undefined : outcomeFromText(ownText(row, sealed.read('payload', late))),
    expired,
  }
}

/** Whom an event is about; needs nothing sealed. */
export function subjectFromRow(row: Row) {
  return {
    record: text(row, 'record'),
    tenant: text(row, 'tenant'),
    principal: text(row, 'principal'),
    tool: text(row, 'tool'),
    attempt: integer(row, 'attempt'),
  }
}

const BORDER = '\n'

/** A sealed text begins with the record it belongs to: moved under another call it does not open. */
export function boundText(record: string, plain: string): string {
  return `${record}${BORDER}${plain}`
}

function ownText(row: Row, bound: string): string {
  const record = text(row, 'record')
  if (bound.startsWith(`${record}${BORDER}`)) return bound.slice(record.length + BORDER.length)
  throw new StoreError('unreadable', `what is stored for call ${record} belongs to another one`)
}

/** What stands in for sealed text that cannot be read. */
export function unreadableText(row: Row): SealedText {
  const outcome: Failure = {
    ok: false,
    error: { code: 'internal', message: 'The stored outcome cannot be read.', canRetry: false },
    durationMs: 0,
  }
  const texts = { callers: '["[unreadable]","",null]', payload: outcomeToText(outcome) }
  return { read: (segment) => boundText(text(row, 'record'), texts[segment]) }
}

/** Caller text as one sealed value. */
export function callerToText(caller: {
  readonly callId: string
  readonly traceId: string
  readonly userId: string | undefined
}): string {
  return JSON.stringify([caller.callId, caller.traceId, caller.userId ?? null])
}

function callerOf(
  row: Row,
  sealed: SealedText,
  expired: boolean,
): Pick<CallRecord, 'callId' | 'traceId' | 'userId'> {
  const slice = {
    group: integer(row, 'claim_group'),
    at: integer(row, 'caller_at'),
    length: integer(row, 'caller_length'),
  }
  try {
    const [callId, traceId, userId]: readonly (string | null)[] = JSON.parse(
      ownText(row, sealed.read('callers', slice)),
    )
    return { callId: callId ?? '', traceId: traceId ?? '', userId: userId ?? undefined }
  } catch (error) {
    // A tombstone may outlive the group its caller text was in.
    if (expired) return { callId: '', traceId: '', userId: undefined }
    throw error
  }
}

function sliceOf(row: Row, name: 'outcome' | 'late'): Slice | undefined {
  const group = optionalInteger(row, `${name}_group`)
  if (group === undefined) return undefined
  return { group, at: integer(row, `${name}_at`), length: integer(row, `${name}_length`) }
}
