import { StoreError } from '#core/errors'
import type { RunRecord } from '#core/ports/store'
import { type CallLabel, labelOf, type RunEvent, type RunFact } from '#core/runs/events'
import { readCaller, type SealedText } from './call-row.ts'
import { integer, optionalInteger, type Row, text } from './row.ts'

export function runFromRow(row: Row): RunRecord {
  return {
    tenant: text(row, 'tenant'),
    run: text(row, 'key'),
    principal: text(row, 'principal'),
    open: integer(row, 'open'),
    touchedAtMs: integer(row, 'touched_at'),
    endedAtMs: optionalInteger(row, 'ended_at'),
  }
}

/** A fact as it is stored: without its call's label, which holds caller text and is sealed elsewhere (rule 15). */
export function factToText(fact: RunFact): string {
  return JSON.stringify(fact, (name, value: unknown) => (name === 'call' ? undefined : value))
}

/** The same as read back; the label is put in again from the caller text of its call. */
type StoredFact =
  | Omit<Extract<RunFact, { readonly type: 'called' }>, 'call'>
  | Omit<Extract<RunFact, { readonly type: 'returned' }>, 'call'>
  | Omit<Extract<RunFact, { readonly type: 'interrupt.requested' }>, 'call'>
  | Omit<Extract<RunFact, { readonly type: 'consent.requested' }>, 'call'>
  | Exclude<RunFact, { readonly call: CallLabel }>

export function runEventFromRow(row: Row, sealed: SealedText): RunEvent {
  const place = { sequence: integer(row, 'sequence'), atMs: integer(row, 'at') }
  const fact: StoredFact = JSON.parse(text(row, 'fact'))
  if (
    fact.type === 'called' ||
    fact.type === 'returned' ||
    fact.type === 'interrupt.requested' ||
    fact.type === 'consent.requested'
  ) {
    return { ...fact, call: callOf(fact.record, row, sealed), ...place }
  }
  return { ...fact, ...place }
}

function callOf(record: string, row: Row, sealed: SealedText): CallLabel {
  const slice = {
    group: integer(row, 'caller_group'),
    at: integer(row, 'caller_at'),
    length: integer(row, 'caller_length'),
  }
  try {
    return labelOf(readCaller(record, sealed, slice))
  } catch (error) {
    // A run that goes on for longer than the journal is kept outlives the text of its first calls.
    if (error instanceof StoreError && error.code === 'unreadable') {
      return { callId: record, toolId: '', transport: 'native', argsHash: '', traceId: '' }
    }
    throw error
  }
}
