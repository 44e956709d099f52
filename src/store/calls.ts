import type { Outcome } from '#core/call'
import { StoreError } from '#core/errors'
import {
  cancelRequestedEvent,
  claimedEvent,
  correctedEvent,
  cutEvent,
  endedEvent,
  settledEvent,
} from '#core/journal/append'
import type { RunPosition } from '#core/journal/events'
import type {
  Attempt,
  CallAddress,
  CallFilter,
  CallRecord,
  ClaimResult,
  FinishedRun,
  FinishResult,
  NewCall,
  NextAttempt,
  OwnCallsPage,
  OwnCallsQuery,
  Settlement,
  SettleResult,
} from '#core/ports/store'
import type { Database } from '#store/sqlite/database'
import type { CommitGroup } from './engine.ts'
import type { Slice } from './rows.ts'
import {
  boundText,
  callerSlice,
  callerToText,
  callFromRow,
  integer,
  optionalInteger,
  outcomeToText,
  type Row,
  type SealedText,
  subjectFromRow,
  text,
  unreadableText,
} from './rows.ts'
import { type CallRunEvents, type RunChanges, runOf, toldByRow } from './runs.ts'

/** Operators' view of calls, newest first; the ambiguous ones have an index of their own. */
export function listCalls(
  database: Database,
  { state, tenant = null, limit }: NullableTenant,
): readonly Row[] {
  if (state === undefined) return database.all('listCalls', tenant, tenant, limit)
  if (state === 'ambiguous') return database.all('listAmbiguousCalls', tenant, tenant, limit)
  return database.all('listCallsByState', state, tenant, tenant, limit)
}

type NullableTenant = Omit<CallFilter, 'tenant'> & { readonly tenant?: string | null }

/** Calls of everybody that one page looks at: some milliseconds. */
const MOST_LOOKED_AT = 5_000

/** Calls of one principal, newest first, and the number to go on before. */
export function listOwnCalls(
  database: Database,
  contents: SealedText,
  { tenant, principal, before, limit }: OwnCallsQuery,
): OwnCallsPage {
  const numbers = database.get('callNumbers')
  if (numbers === undefined) return { calls: [] }
  const first = integer(numbers, 'first')
  const end = Math.min(before ?? Number.MAX_SAFE_INTEGER, integer(numbers, 'last') + 1)
  const from = Math.max(first, end - MOST_LOOKED_AT)
  const rows = database.all('listOwnCalls', end, from, tenant, principal, limit)
  const last = rows.length < limit ? undefined : rows.at(-1)
  const next = last === undefined ? from : integer(last, 'no')
  const calls = rows.map((row) => showCall(row, contents))
  return next > first ? { calls, next } : { calls }
}

/**
 * Somebody else has the call. Its record is read after the commit: the winner may be in the very group that is
 * being put together, its text not sealed yet (rule 19).
 */
export const TAKEN = 'taken'
export const RUN_ENDED = { kind: 'run_ended' } as const

type Claimed = Extract<ClaimResult, { readonly kind: 'claimed' }>
type Recorded = Extract<FinishResult, { readonly kind: 'recorded' }>

const NO_SLICE = { group: null, at: null, length: null } as const

/** An attempt that waits, with its place in its run. */
export interface Parked {
  readonly kind: 'parked'
  readonly attempt: number
  readonly run: string
  readonly caller: Slice
  readonly position: RunPosition
}

interface CorrectedCall {
  readonly before: Row
  readonly seen: CallRecord
  readonly corrected: NewCall
  readonly atMs: number
}

interface InsertedCall {
  readonly call: NewCall
  readonly run: string | undefined
  readonly state: CallRecord['state']
  readonly finished?: Omit<FinishedRun, 'run'>
}

/** Every change of a call row, each inside a commit group that the caller opened. Conflicts are results (rule 19). */
export class CallChanges {
  readonly #database: Database
  readonly #sealed: SealedText
  readonly #runs: RunChanges
  readonly #runEvents: CallRunEvents
  readonly #writerNo: () => number

  constructor(parts: {
    readonly database: Database
    readonly runs: RunChanges
    readonly runEvents: CallRunEvents
    readonly sealed: SealedText
    readonly writerNo: () => number
  }) {
    this.#database = parts.database
    this.#sealed = parts.sealed
    this.#runs = parts.runs
    this.#runEvents = parts.runEvents
    this.#writerNo = parts.writerNo
  }

  find(record: string): CallRecord | undefined {
    try {
      return this.#read(record)
    } catch (error) {
      // Another process may have changed the call between the row and its contents: what is there now is consistent.
      if (error instanceof StoreError && error.code === 'unreadable') return this.#read(record)
      throw error
    }
  }

  claim(group: CommitGroup, call: NewCall): Claimed | typeof RUN_ENDED | typeof TAKEN {
    const { tenant, principal, session, atMs } = call
    const run = runOf(call)
    if (run !== undefined) {
      // Whose key it is comes first (rule 1): a claim that loses neither makes a run nor asks whether it has ended.
      if (this.#database.get('callerOf', call.record) !== undefined) return TAKEN
      if (!this.#runs.open({ tenant, run, principal }, atMs)) return RUN_ENDED
    }
    const caller = this.#insert(group, { call, run, state: 'running' })
    if (caller === undefined) return TAKEN
    const position =
      run === undefined
        ? undefined
        : this.#runEvents.begin(group, { call, run, attempt: 1, session, caller, atMs })
    group.append({ ...claimedEvent(call, 1, { atMs, parent: call.step?.parent }), ...position })
    return { kind: 'claimed', attempt: 1 }
  }

  insertFinished(
    group: CommitGroup,
    call: NewCall,
    finished: Omit<FinishedRun, 'run'>,
  ): Recorded | typeof TAKEN {
    const { state } = finished
    if (this.#insert(group, { call, run: runOf(call), state, finished }) === undefined) return TAKEN
    group.append(endedEvent(call, 1, finished))
    return { kind: 'recorded' }
  }

  reclaim(
    group: CommitGroup,
    seen: CallRecord,
    next: NextAttempt,
  ): Claimed | typeof RUN_ENDED | typeof TAKEN {
    const begun = this.#beginNext(group, seen, next, 'running')
    if (!('position' in begun)) return begun.kind === 'taken' ? TAKEN : RUN_ENDED
    const { attempt, position } = begun
    group.append({ ...claimedEvent(seen, attempt, { atMs: next.atMs, parent: seen.parent }), ...position })
    return { kind: 'claimed', attempt }
  }

  /** A call that waits for a yes: its row and the first event of its run, which it always has (rule 20). */
  park(group: CommitGroup, call: NewCall): Parked | typeof RUN_ENDED | typeof TAKEN {
    const { tenant, principal, session, atMs } = call
    const run = runOf(call) ?? call.record
    if (this.#database.get('callerOf', call.record) !== undefined) return TAKEN
    if (!this.#runs.open({ tenant, run, principal }, atMs)) return RUN_ENDED
    const caller = this.#insert(group, { call, run, state: 'parked' })
    if (caller === undefined) return TAKEN
    const position = this.#runEvents.begin(group, { call, run, attempt: 1, session, caller, atMs })
    return { kind: 'parked', attempt: 1, run, caller, position }
  }

  /** The same for its next attempt. */
  parkAgain(
    group: CommitGroup,
    seen: CallRecord,
    next: NextAttempt,
  ): Parked | typeof RUN_ENDED | typeof TAKEN {
    const begun = this.#beginNext(group, seen, next, 'parked')
    if (!('position' in begun)) return begun.kind === 'taken' ? TAKEN : RUN_ENDED
    return { kind: 'parked', ...begun }
  }

  #beginNext(
    group: CommitGroup,
    seen: CallRecord,
    next: NextAttempt,
    as: 'running' | 'parked',
  ): Omit<Parked, 'kind'> | { readonly kind: 'taken' | 'run_ended' } {
    const { tenant, principal, record, state, attempt, writer, sessionId } = seen
    const { session, atMs, corrected } = next
    const run = seen.run ?? record
    const before = this.#database.get('findCall', record)
    if (before === undefined || !isStillFree(before, seen)) return { kind: 'taken' }
    if (run !== record && !this.#runs.open({ tenant, run, principal }, atMs)) return RUN_ENDED
    const values = [as, this.#writerNo(), session?.sessionId ?? null, record, state, attempt, writer]
    if (this.#database.run('reclaimCall', ...values) === 0) return { kind: 'taken' }
    this.#dropReplaced(before, 'outcome_group')
    this.#runEvents.keep(before, seen)
    if (state === 'running') {
      const cut = { row: { ...before, run }, record, attempt, sessionId, atMs }
      group.append({ ...cutEvent(seen, writer, atMs), ...this.#runEvents.cut(cut, 'cut') })
      // An attempt that never began holds a session nobody else would close.
      if (session?.isOwn === true && sessionId !== undefined) {
        this.#runEvents.closeCutSession(group, { tenant, sessionId }, atMs)
      }
    }
    const caller =
      corrected === undefined ? callerSlice(before) : this.#correct(group, { before, seen, corrected, atMs })
    const begun = { call: seen, run, attempt: attempt + 1, session, caller, atMs }
    return { attempt: attempt + 1, run, caller, position: this.#runEvents.begin(group, begun) }
  }

  /** Rule 9: what the call is from this attempt on. Gives where its caller text went. */
  #correct(group: CommitGroup, { before, seen, corrected, atMs }: CorrectedCall): Slice {
    const { record, fingerprint, inputJson } = corrected
    const caller = group.addCaller(boundText(record, callerToText(corrected)))
    const input = group.addPayload(boundText(record, inputJson))
    const slices = [group.id, caller.at, caller.length, input.at, input.length]
    this.#database.run('correctCall', fingerprint, ...slices, record)
    this.#database.run('dropReference', 1, 1, integer(before, 'claim_group'))
    group.addReference()
    group.append(correctedEvent(seen, corrected, atMs))
    return caller
  }

  finish(group: CommitGroup, finished: FinishedRun): Recorded | typeof TAKEN {
    const { run, state, outcome, atMs } = finished
    const slice = group.addPayload(boundText(run.record, outcomeToText(outcome)))
    const changed = this.#database.run(
      'finishCall',
      state,
      atMs,
      slice.group,
      slice.at,
      slice.length,
      run.record,
      run.attempt,
      this.#writerNo(),
    )
    if (changed === 0) return TAKEN
    group.addReference()
    const position = this.#runEvents.end(run, outcome, atMs)
    group.append({ ...endedEvent(run, run.attempt, { state, outcome, atMs }), ...position })
    this.#runEvents.endSession(group, run, outcome, atMs)
    return { kind: 'recorded' }
  }

  recordLate(
    group: CommitGroup,
    late: { readonly run: Attempt; readonly outcome: Outcome; readonly atMs: number },
  ): void {
    const { run, outcome, atMs } = late
    const slice = group.addPayload(boundText(run.record, outcomeToText(outcome)))
    if (this.#database.run('lateCall', slice.group, slice.at, slice.length, run.record, run.attempt) > 0) {
      group.addReference()
    }
    group.append(endedEvent(run, run.attempt, { state: 'late', outcome, atMs }))
  }

  requestCancel(
    group: CommitGroup,
    asked: CallAddress & { readonly by: string; readonly atMs: number },
  ): boolean {
    if (this.#database.run('requestCancel', asked.record, asked.tenant) === 0) return false
    const row = this.#database.get('findCall', asked.record) ?? {}
    group.append(cancelRequestedEvent(subjectFromRow(row), asked.by, asked.atMs))
    return true
  }

  /** Whether there is something to settle. */
  findUnsettled(record: string): Row | Exclude<SettleResult, 'settled'> {
    const row = this.#database.get('findCall', record)
    if (row === undefined) return 'not_found'
    return text(row, 'state') === 'ambiguous' ? row : 'not_ambiguous'
  }

  settle(group: CommitGroup, settlement: Settlement): SettleResult {
    const row = this.findUnsettled(settlement.record)
    if (typeof row === 'string') return row
    if (settlement.as === 'not-run') {
      dropReferences(this.#database, [row])
      deleteCall(this.#database, settlement.record)
      this.#runs.remove(settlement.record)
    } else {
      // Calls from before there were runs: what was told of their end does not change with their outcome.
      this.#runEvents.keep(row, toldByRow(row, 'ambiguous'))
      const outcome = settledOutcome(settlement)
      const slice: Slice | typeof NO_SLICE =
        outcome === undefined
          ? NO_SLICE
          : group.addPayload(boundText(settlement.record, outcomeToText(outcome)))
      if (outcome !== undefined) group.addReference()
      const { as, atMs, record } = settlement
      this.#database.run('settleCall', as, atMs, slice.group, slice.at, slice.length, record)
    }
    group.append(settledEvent(subjectFromRow(row), settlement))
    return 'settled'
  }

  /** A group kept for a text that nothing points to any more would never be forgotten (rule 13). */
  #dropReplaced(row: Row | undefined, slot: 'outcome_group' | 'late_group'): void {
    const replaced = row === undefined ? undefined : optionalInteger(row, slot)
    if (replaced !== undefined) this.#database.run('dropReference', 1, 1, replaced)
  }

  #read(record: string): CallRecord | undefined {
    const row = this.#database.get('findCall', record)
    return row === undefined ? undefined : callFromRow(row, this.#sealed)
  }

  /** Where the caller text went; `undefined` when the key is taken. */
  #insert(group: CommitGroup, { call, run, state, finished }: InsertedCall): Slice | undefined {
    const caller = group.addCaller(boundText(call.record, callerToText(call)))
    const input = group.addPayload(boundText(call.record, call.inputJson))
    const outcome =
      finished === undefined
        ? NO_SLICE
        : group.addPayload(boundText(call.record, outcomeToText(finished.outcome)))
    const inserted = this.#database.run(
      'insertCall',
      call.record,
      call.tenant,
      call.principal,
      call.tool,
      call.definitionHash,
      call.tier,
      call.replay,
      call.rerunUntilMs,
      call.fingerprint,
      state,
      this.#writerNo(),
      call.atMs,
      finished?.atMs ?? null,
      group.id,
      caller.at,
      caller.length,
      input.at,
      input.length,
      outcome.group,
      outcome.at,
      outcome.length,
      run ?? null,
      call.session?.sessionId ?? null,
      call.step?.parent ?? null,
      call.step?.root ?? null,
      call.resumable === true ? 1 : 0,
    )
    if (inserted === 0) return undefined
    group.addReference()
    if (finished !== undefined) group.addReference()
    return caller
  }
}

/** Whether the call waits for its next attempt and nobody took it since it was seen. */
function isStillFree(row: Row, { state, attempt, writer }: CallRecord): boolean {
  const isSame =
    text(row, 'state') === state && integer(row, 'attempt') === attempt && text(row, 'writer_id') === writer
  return isSame && (state === 'released' || state === 'running') && integer(row, 'expired') === 0
}

const SLOTS = ['claim_group', 'outcome_group', 'late_group'] as const

/** Lets go of what these calls hold in their groups; a group nobody holds loses its payload. */
export function dropReferences(database: Database, calls: readonly Row[]): void {
  const dropped = new Map<number, number>()
  for (const call of calls) {
    for (const slot of SLOTS) {
      const group = optionalInteger(call, slot)
      if (group !== undefined) dropped.set(group, (dropped.get(group) ?? 0) + 1)
    }
  }
  for (const [group, count] of dropped) database.run('dropReference', count, count, group)
}

/** A call goes with what was asked about it. */
export function deleteCall(database: Database, record: string): void {
  const deleted = database.get('deleteCall', record)
  if (deleted !== undefined) deleteApprovalsOf(database, deleted)
}

/** What was asked about a call that is deleted, with the words of its approvers and the messages about it. */
export function deleteApprovalsOf(database: Database, deleted: Row): void {
  if (integer(deleted, 'approvals') === 0) return
  const record = text(deleted, 'record')
  database.run('deleteDecisionsOfCall', record)
  database.run('deleteNoticesOfCall', record)
  database.run('deleteApprovalsOfCall', record)
}

/** What a settled call answers from now on; `undefined` when it took effect but nobody knows the value (rule 12). */
export function settledOutcome(settlement: Settlement): Outcome | undefined {
  const { as, valueJson, error } = settlement
  if (as === 'succeeded') return valueJson === undefined ? undefined : { ok: true, valueJson }
  return error === undefined ? undefined : { ok: false, error }
}

/** For operators: a record whose contents cannot be read is shown without them, not hidden with all others. */
export function showCall(row: Row, contents: Parameters<typeof callFromRow>[1]): CallRecord {
  try {
    return callFromRow(row, contents)
  } catch (error) {
    if (error instanceof StoreError && error.code === 'unreadable')
      return callFromRow(row, unreadableText(row))
    throw error
  }
}
