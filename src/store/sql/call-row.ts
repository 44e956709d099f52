import type { CallProtocol, Failure } from '#core/call'
import { StoreError } from '#core/errors'
import type { CallRecord, NewCall, RefusedCall } from '#core/ports/store'
import type { AskedConsent } from '#core/ports/vault-store'
import type { CallLabel } from '#core/runs/events'
import type { Slice } from './open-group.ts'
import { outcomeFromText, outcomeToText } from './outcome-text.ts'
import { integer, optionalInteger, optionalText, type Row, text, word } from './row.ts'

export const CALL_STATES = ['parked', 'running', 'succeeded', 'failed', 'released', 'ambiguous'] as const
export const TIERS = ['pure', 'read', 'write', 'exec'] as const
const PROTOCOLS = ['otc', 'opentool', 'openwop', 'mcp'] as const satisfies readonly CallProtocol[]
const REPLAYS = ['deterministic', 'idempotent', 'non-deterministic'] as const

/** Reads sealed text by its place. */
export interface SealedText {
  read(segment: 'callers' | 'payload', slice: Slice): string
}

export function callFromRow(row: Row, sealed: SealedText): CallRecord {
  const record = text(row, 'record')
  const expired = integer(row, 'expired') === 1
  const outcome = sliceOf(row, 'outcome')
  const late = sliceOf(row, 'late')
  return {
    tenant: text(row, 'tenant'),
    record,
    principal: text(row, 'principal'),
    ...withToolId(callerOf(row, sealed, expired), text(row, 'tool')),
    fingerprint: text(row, 'fingerprint'),
    tool: text(row, 'tool'),
    definitionHash: text(row, 'definition'),
    run: optionalText(row, 'run'),
    sessionId: optionalText(row, 'session'),
    tier: word(row, 'tier', TIERS),
    replay: word(row, 'replay', REPLAYS),
    rerunUntilMs: integer(row, 'rerun_until'),
    state: word(row, 'state', CALL_STATES),
    attempt: integer(row, 'attempt'),
    writer: text(row, 'writer_id'),
    createdAtMs: integer(row, 'created_at'),
    finishedAtMs: optionalInteger(row, 'finished_at'),
    outcome:
      outcome === undefined ? undefined : outcomeFromText(ownText(record, sealed.read('payload', outcome))),
    late: late === undefined ? undefined : outcomeFromText(ownText(record, sealed.read('payload', late))),
    expired,
    parent: optionalText(row, 'parent'),
    root: optionalText(row, 'root'),
    resumable: integer(row, 'resumable') === 1,
    waitsFor: optionalText(row, 'waits_for'),
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

export function ownText(record: string, bound: string): string {
  if (bound.startsWith(`${record}${BORDER}`)) return bound.slice(record.length + BORDER.length)
  throw new StoreError('unreadable', `what is stored for call ${record} belongs to another one`)
}

/** What stands in for sealed text that cannot be read. */
export function unreadableText(row: Row): SealedText {
  const outcome: Failure = {
    ok: false,
    error: { code: 'internal', message: 'The stored outcome cannot be read.', canRetry: false },
  }
  const texts = { callers: '["[unreadable]","",null]', payload: outcomeToText(outcome) }
  return { read: (segment) => boundText(text(row, 'record'), texts[segment]) }
}

/** What a call's caller wrote or can be known by, as one sealed value. */
type Caller = Pick<CallRecord, 'userId' | 'runId' | 'protocol'> & CallLabel

export function callerToText(call: NewCall | RefusedCall | AskedConsent): string {
  const { callId, traceId, userId, argsHash, toolId, transport, place } = call
  return JSON.stringify([
    callId,
    traceId,
    userId ?? null,
    argsHash,
    toolId,
    transport,
    place === undefined ? null : place.runId,
    ('protocol' in call ? call.protocol : undefined) ?? null,
  ])
}

/** Opens the caller text of a record. Calls of older versions lack its later parts. */
export function readCaller(record: string, sealed: SealedText, slice: Slice): Caller {
  const parts: readonly (string | null)[] = JSON.parse(ownText(record, sealed.read('callers', slice)))
  const [callId, traceId, userId, argsHash, toolId, transport, runId, protocol] = parts
  return {
    callId: callId ?? '',
    traceId: traceId ?? '',
    userId: userId ?? undefined,
    argsHash: argsHash ?? '',
    toolId: toolId ?? '',
    transport: transport === 'mcp' || transport === 'http' ? transport : 'native',
    runId: runId ?? undefined,
    protocol: PROTOCOLS.find((known) => known === protocol),
  }
}

const FORGOTTEN: Caller = {
  callId: '',
  traceId: '',
  userId: undefined,
  argsHash: '',
  toolId: '',
  transport: 'native',
  runId: undefined,
  protocol: undefined,
}

function callerOf(row: Row, sealed: SealedText, expired: boolean): Caller {
  try {
    return readCaller(text(row, 'record'), sealed, callerSlice(row))
  } catch (error) {
    // A tombstone may outlive the group its caller text was in.
    if (expired) return FORGOTTEN
    throw error
  }
}

/** Calls of older versions, and such as outlive their text, are known by the id that code has unless it says otherwise. */
export function withToolId<C extends CallLabel>(label: C, tool: string): C {
  const [name = tool] = tool.split('@')
  return label.toolId === '' ? { ...label, toolId: `openwop:${name}` } : label
}

/** Where a call's caller text lies. */
export function callerSlice(row: Row): Slice {
  return {
    group: integer(row, 'claim_group'),
    at: integer(row, 'caller_at'),
    length: integer(row, 'caller_length'),
  }
}

function sliceOf(row: Row, name: 'outcome' | 'late'): Slice | undefined {
  const group = optionalInteger(row, `${name}_group`)
  if (group === undefined) return undefined
  return { group, at: integer(row, `${name}_at`), length: integer(row, `${name}_length`) }
}
