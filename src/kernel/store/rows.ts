import { hash } from 'node:crypto'
import { StoreError } from '#kernel/base/errors'
import { CALL_PROTOCOLS, CALL_STATES, type Outcome } from '#kernel/call/call'
import type { CallRecord, NewCall } from '#kernel/call/call-record'
import type { CallSubject } from '#kernel/journal/events'
import type { CallLabel } from '#kernel/run/events'
import { answered, type CommitGroup, get, type Row, type Steps, type StoreContext, write } from './engine.ts'
import type { KeyRing } from './key-ring.ts'

/**
 * Call rows and their sealed texts, approvers' sealed reasons, typed access to columns, and the `meta` table with its counters.
 * All store modules read rows with these functions. A column of an unexpected type means a damaged database and throws
 * `unreadable`.
 */

export const TIERS = ['pure', 'read', 'write', 'exec'] as const
const REPLAYS = ['deterministic', 'idempotent', 'non-deterministic'] as const

/** The position of a text inside one group's sealed bytes. */
export interface Slice {
  readonly group: number
  readonly at: number
  readonly length: number
}

/** The columns of an absent slice. */
export const NO_SLICE = { group: null, at: null, length: null } as const

export type SealedText = (segment: 'callers' | 'payload', slice: Slice) => Steps<string>

export function* callFromRow(row: Row, sealed: SealedText): Steps<CallRecord> {
  const expired = integer(row, 'expired') === 1
  return {
    tenant: text(row, 'tenant'),
    record: text(row, 'record'),
    principal: text(row, 'principal'),
    ...withToolId(yield* callerOf(row, sealed, expired), text(row, 'tool')),
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
    ranMs: optionalInteger(row, 'ran_ms'),
    outcome: yield* outcomeIn(row, 'outcome', sealed),
    late: yield* outcomeIn(row, 'late', sealed),
    expired,
    parent: optionalText(row, 'parent'),
    root: optionalText(row, 'root'),
    resumable: integer(row, 'resumable') === 1,
    waitsFor: optionalText(row, 'waits_for'),
  }
}

/** The subject of an event, which needs no sealed text. */
export function subjectFromRow(row: Row) {
  return {
    record: text(row, 'record'),
    tenant: text(row, 'tenant'),
    principal: text(row, 'principal'),
    tool: text(row, 'tool'),
    attempt: integer(row, 'attempt'),
  }
}

const SEPARATOR = '\n'

/** A sealed text begins with its record, so that it cannot be moved to another call. */
export function boundText(record: string, plain: string): string {
  return `${record}${SEPARATOR}${plain}`
}

export function ownText(record: string, bound: string): string {
  if (bound.startsWith(`${record}${SEPARATOR}`)) return bound.slice(record.length + SEPARATOR.length)
  throw new StoreError('unreadable', `the text stored for call ${record} belongs to another call`)
}

/** Placeholder for sealed text that cannot be read. */
export function unreadableText(row: Row): SealedText {
  const error = { code: 'internal', message: 'The stored outcome cannot be read.', canRetry: false } as const
  const texts = { callers: '["[unreadable]","",null]', payload: outcomeToText({ ok: false, error }) }
  return (segment) => answered(boundText(text(row, 'record'), texts[segment]))
}

/** The texts of a call that its caller wrote or that identify it, as one sealed value. */
type Caller = Pick<CallRecord, 'userId' | 'runId' | 'protocol' | 'by'> & CallLabel

type LabelledCall = CallLabel &
  Pick<NewCall, 'userId' | 'scope' | 'by'> &
  Partial<Pick<NewCall, 'protocol' | 'definitionHash'>>

export function callerToText(call: LabelledCall): string {
  const { callId, traceId, userId, argsHash, toolId, transport, scope } = call
  return JSON.stringify([
    callId,
    traceId,
    userId ?? null,
    argsHash,
    toolId,
    transport,
    scope === undefined ? null : scope.runId,
    call.protocol ?? null,
    call.definitionHash ?? null,
    ...(call.by === undefined ? [] : [call.by]),
  ])
}

export function* readCaller(record: string, sealed: SealedText, slice: Slice): Steps<Caller> {
  const parts: readonly (string | null)[] = JSON.parse(ownText(record, yield* sealed('callers', slice)))
  const [callId, traceId, userId, argsHash, toolId, transport, runId, protocol, , by] = parts
  return {
    callId: callId ?? '',
    traceId: traceId ?? '',
    userId: userId ?? undefined,
    argsHash: argsHash ?? '',
    toolId: toolId ?? '',
    transport: transport === 'mcp' || transport === 'http' ? transport : 'native',
    runId: runId ?? undefined,
    protocol: CALL_PROTOCOLS.find((known) => known === protocol),
    by: by ?? undefined,
  }
}

/**
 * Called when the call's row refers to an outcome of this group. The digest is kept with callers' texts: unlike the outcome it lasts
 * as long as the journal and is covered by the group's link, so a receipt can prove an outcome that was purged.
 */
export function keepOutcome(
  group: CommitGroup,
  { record, attempt }: Pick<CallSubject, 'record' | 'attempt'>,
  outcome: Outcome,
): void {
  group.addReference()
  const digest = hash('sha256', provenText(outcome), 'hex')
  group.addCaller(boundText(record, `=${attempt}:${digest};`))
}

/** The text whose digest stands for an outcome: the result as it was sent, or else the whole outcome. */
export function provenText(outcome: Outcome): string {
  return outcome.ok && outcome.shown === undefined ? outcome.valueJson : JSON.stringify(outcome)
}

/**
 * Splits the callers' texts of a group into those of each record. A line break stands only after a record's id, because all texts
 * are JSON or digests.
 */
export function callerTexts(plain: string): readonly (readonly [record: string, text: string])[] {
  const [first = '', ...parts] = plain.split(SEPARATOR)
  let record = first
  return parts.map((part) => {
    const end = Math.max(part.lastIndexOf(']'), part.lastIndexOf(';')) + 1
    const found = [record, part.slice(0, end)] as const
    record = part.slice(end)
    return found
  })
}

/** Placeholder for a label that is stored in the call's caller text, or was removed with that text. */
export const NO_LABEL: CallLabel = { callId: '', toolId: '', transport: 'native', argsHash: '', traceId: '' }

const FORGOTTEN: Caller = { ...NO_LABEL, userId: undefined, runId: undefined, protocol: undefined }

function* callerOf(row: Row, sealed: SealedText, expired: boolean): Steps<Caller> {
  try {
    return yield* readCaller(text(row, 'record'), sealed, callerSlice(row))
  } catch (error) {
    // An expired call may be kept longer than the group with its caller text.
    if (expired) return FORGOTTEN
    throw error
  }
}

/** A call whose caller text was removed gets the default catalog id. */
export function withToolId<C extends CallLabel>(label: C, tool: string): C {
  const [name = tool] = tool.split('@')
  return label.toolId === '' ? { ...label, toolId: `openwop:${name}` } : label
}

/** The slice of a call's caller text. */
export function callerSlice(row: Row): Slice {
  return sliceOf(row, 'caller', 'claim_group')
}

/** The slice of a sealed text, from its three columns (`<name>_group`, `<name>_at`, `<name>_length`). */
export function sliceOf(
  row: Row,
  name: 'caller' | 'subject' | 'input' | 'outcome' | 'late',
  group = `${name}_group`,
): Slice {
  return {
    group: integer(row, group),
    at: integer(row, `${name}_at`),
    length: integer(row, `${name}_length`),
  }
}

/** `undefined` also if the row has only the outcome's group: a call settled without a value, or whose result has expired. */
export function* outcomeIn(
  row: Row,
  name: 'outcome' | 'late',
  sealed: SealedText,
): Steps<Outcome | undefined> {
  if (row[`${name}_at`] === null) return undefined
  return outcomeFromText(ownText(text(row, 'record'), yield* sealed('payload', sliceOf(row, name))))
}

/**
 * The stored form of an outcome: a value as `+<duration>,<length>\n<value>`, a value with shown content as `*<json>`, a failure
 * as `-<json>`. The length is stored because offsets into the group are not encrypted, and a changed offset must not yield
 * another value.
 */
export function outcomeToText(outcome: Outcome): string {
  if (!outcome.ok) return `-${JSON.stringify(outcome)}`
  if (outcome.shown !== undefined) return `*${JSON.stringify(outcome)}`
  const { durationMs = '', valueJson } = outcome
  return `+${durationMs},${valueJson.length}\n${valueJson}`
}

function outcomeFromText(text: string): Outcome {
  if (text.startsWith('+')) {
    const end = text.indexOf('\n')
    const valueJson = text.slice(end + 1)
    const [duration = '', length] = text.slice(1, end).split(',')
    if (Number(length) !== valueJson.length)
      throw new StoreError(
        'unreadable',
        'the length of a stored value differs from the length that was written',
      )
    return duration === '' ? { ok: true, valueJson } : { ok: true, valueJson, durationMs: Number(duration) }
  }
  const outcome: Outcome = JSON.parse(text.slice(1))
  if (outcome.ok === text.startsWith('*')) return outcome
  throw new StoreError('unreadable', 'a stored outcome has an unknown form')
}

/** Prefix of sealed texts in columns and events that may also contain the server's own plain text. */
export const SEALED = 'sealed:'

const UNREADABLE = '[unreadable]'

/**
 * Approvers' reasons mention people and customers, so they are sealed wherever they are stored: with the decision, in a run's
 * events and in the journal. Each copy is sealed on its own and deleted with the row that contains it.
 */
export function sealReason(keys: KeyRing, approval: string, reason: string): string {
  return keys.sealText('reasons', reason, reasonContext(approval))
}

/** A reason that cannot be read is returned unchanged. */
export function resealReason(keys: KeyRing, approval: string, stored: string): string {
  const reason = openReason(keys, approval, stored)
  return stored.startsWith(SEALED) && reason !== UNREADABLE ? sealReason(keys, approval, reason) : stored
}

/** A tampered reason is shown as unreadable, so that other reasons can still be read. */
export function openReason(keys: KeyRing, approval: string, stored: string): string {
  if (!stored.startsWith(SEALED)) return stored
  try {
    return keys.openText('reasons', stored, reasonContext(approval))
  } catch {
    return UNREADABLE
  }
}

/** Returns an event or a run fact with its reason opened; most have no reason. */
export function openReasonIn<T extends object>(keys: KeyRing, event: T): T {
  if (!('approval' in event && 'reason' in event)) return event
  const { approval, reason } = event
  if (typeof approval !== 'string' || typeof reason !== 'string') return event
  return { ...event, reason: openReason(keys, approval, reason) }
}

function reasonContext(approval: string): string {
  return JSON.stringify(['approval reason', approval])
}

export function text(row: Row, column: string): string {
  const value = row[column]
  if (typeof value === 'string') return value
  throw damaged(column)
}

export function optionalText(row: Row, column: string): string | undefined {
  return row[column] === null ? undefined : text(row, column)
}

export function integer(row: Row, column: string): number {
  const value = row[column]
  if (typeof value === 'number') return value
  throw damaged(column)
}

export function optionalInteger(row: Row, column: string): number | undefined {
  return row[column] === null ? undefined : integer(row, column)
}

export function bytes(row: Row, column: string): Uint8Array {
  const value = row[column]
  if (value instanceof Uint8Array) return value
  throw damaged(column)
}

export function optionalBytes(row: Row, column: string): Uint8Array | null {
  return row[column] === null ? null : bytes(row, column)
}

/** Reads a counter that every process raises when it makes a change. */
export function* readEpoch(name: string): Steps<number> {
  const row = yield* get('readMeta', name)
  return row === undefined ? 0 : Number(text(row, 'value'))
}

const CONFIG_EPOCH = 'config_epoch'

/** Operators' requests that all servers of a store reload their configuration. They are not journaled. */
export function openReloads({ exclusive, read }: Pick<StoreContext, 'exclusive' | 'read'>) {
  const request = exclusive(
    () => '',
    function* (_group, name: string) {
      yield* write('raiseEpoch', name)
      return yield* readEpoch(name)
    },
  )
  return {
    /** The number of requests so far, by any process. */
    epoch: read(() => readEpoch(CONFIG_EPOCH)),
    /** Requests a reload; returns the new epoch. */
    request: () => request(CONFIG_EPOCH),
  }
}

export function word<W extends string>(row: Row, column: string, words: readonly W[]): W {
  const value = text(row, column)
  const known = words.find((candidate) => candidate === value)
  if (known !== undefined) return known
  throw damaged(column)
}

function damaged(column: string): StoreError {
  return new StoreError('unreadable', `the database contains an unexpected value in column ${column}`)
}

export const queries = {
  raiseEpoch: `INSERT INTO meta (name, value) VALUES (?, '1')
    ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS INTEGER) + 1 AS TEXT)`,
  readMeta: 'SELECT value FROM meta WHERE name = ?',
  writeMeta:
    'INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
} as const

export const tables = `
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;
`
