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
  Store,
} from '#core/ports/store'
import type { CommitGroup, StoreContext } from './engine.ts'
import {
  boundText,
  callerSlice,
  callerToText,
  callFromRow,
  integer,
  NO_SLICE,
  optionalInteger,
  outcomeToText,
  type SealedText,
  type Slice,
  subjectFromRow,
  text,
  unreadableText,
} from './rows.ts'
import {
  beginAttempt,
  closeSession,
  cutAttempt,
  endAttempt,
  endOwnSession,
  keepInRun,
  openRun,
  removeRun,
  runOf,
  toldByRow,
} from './runs.ts'
import { all, get, type Row, type Steps, write } from './steps.ts'

type CallPort = Pick<
  Store,
  | 'find'
  | 'claim'
  | 'reclaim'
  | 'finish'
  | 'insertFinished'
  | 'recordLate'
  | 'requestCancel'
  | 'cancelRequests'
  | 'settle'
  | 'listOwn'
  | 'list'
  | 'findByRecord'
>

/** Calls; `writerNo` is our own number, 0 before our first change. */
export function sqlCalls(context: StoreContext, writerNo: () => number): CallPort {
  const { careful, lane, read, snapshot, sealed } = context
  const holder = holderOf(context)
  const recordOf = ({ record }: { readonly record: string }) => record
  const changes = {
    claim: lane(recordOf, (call) => runOf(call) ?? call.record, claimCall),
    reclaim: lane(recordOf, ({ run, record }) => run ?? record, reclaimCall),
    finish: lane(
      ({ run }) => run.record,
      ({ run }) => run.run ?? run.record,
      finishCall,
    ),
    insertFinished: lane(recordOf, recordOf, insertFinished),
    settle: careful(recordOf, settleCall),
  }
  const unsettled = read(findUnsettled)
  return {
    find: read((address: CallAddress) => findOwn(sealed, address)),
    async claim(call) {
      const claimed = await changes.claim(call)
      return claimed === TAKEN ? holder(call.record) : claimed
    },
    async reclaim(seen, next) {
      const claimed = await changes.reclaim(seen, next)
      return claimed === TAKEN ? holder(seen.record) : claimed
    },
    async finish(finished) {
      const recorded = await changes.finish(finished)
      return recorded === TAKEN ? holder(finished.run.record) : recorded
    },
    async insertFinished(call, finished) {
      const recorded = await changes.insertFinished(call, finished)
      return recorded === TAKEN ? holder(call.record) : recorded
    },
    recordLate: lane(recordOf, recordOf, recordLate),
    requestCancel: careful(recordOf, requestCancel),
    cancelRequests: read(() => cancelRequests(writerNo())),
    /** Looks before it writes: a refusal begins no writer and leaves no trace. */
    async settle(settlement) {
      const found = await unsettled(settlement.record)
      return typeof found === 'string' ? found : await changes.settle(settlement)
    },
    listOwn: snapshot((query: OwnCallsQuery) => listOwnCalls(sealed, query)),
    list: snapshot((filter: CallFilter) => listCalls(sealed, filter)),
    findByRecord: read((record: string) => findByRecord(sealed, record)),
  }
}

function* findOwn(sealed: SealedText, { tenant, record }: CallAddress): Steps<CallRecord | undefined> {
  const found = yield* findCall(sealed, record)
  return found?.tenant === tenant ? found : undefined
}

/** Our own running calls that somebody asked to stop. */
function* cancelRequests(writerNo: number): Steps<readonly CallAddress[]> {
  const rows = yield* all('cancelRequests', writerNo)
  return rows.map((row) => ({ tenant: text(row, 'tenant'), record: text(row, 'record') }))
}

/** Operators' view of calls, newest first; the ambiguous ones have an index of their own. */
function* listCalls(sealed: SealedText, filter: CallFilter): Steps<readonly CallRecord[]> {
  const { state, limit } = filter
  const tenant = filter.tenant ?? null
  if (state === undefined) return yield* showCalls(yield* all('listCalls', tenant, tenant, limit), sealed)
  const rows =
    state === 'ambiguous'
      ? yield* all('listAmbiguousCalls', tenant, tenant, limit)
      : yield* all('listCallsByState', state, tenant, tenant, limit)
  return yield* showCalls(rows, sealed)
}

function* findByRecord(sealed: SealedText, record: string): Steps<CallRecord | undefined> {
  const row = yield* get('findCall', record)
  return row === undefined ? undefined : yield* showCall(row, sealed)
}

/** Calls of everybody that one page looks at: some milliseconds. */
const MOST_LOOKED_AT = 5_000

/** Calls of one principal, newest first, and the number to go on before. */
function* listOwnCalls(sealed: SealedText, query: OwnCallsQuery): Steps<OwnCallsPage> {
  const { tenant, principal, before, limit } = query
  const numbers = yield* get('callNumbers')
  if (numbers === undefined) return { calls: [] }
  const first = integer(numbers, 'first')
  const end = Math.min(before ?? Number.MAX_SAFE_INTEGER, integer(numbers, 'last') + 1)
  const from = Math.max(first, end - MOST_LOOKED_AT)
  const rows = yield* all('listOwnCalls', end, from, tenant, principal, limit)
  const last = rows.length < limit ? undefined : rows.at(-1)
  const next = last === undefined ? from : integer(last, 'no')
  const calls = yield* showCalls(rows, sealed)
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

export function* findCall(sealed: SealedText, record: string): Steps<CallRecord | undefined> {
  try {
    return yield* readCall(sealed, record)
  } catch (error) {
    // Another process may have changed the call between the row and its contents: what is there now is consistent.
    if (error instanceof StoreError && error.code === 'unreadable') return yield* readCall(sealed, record)
    throw error
  }
}

/** Reads, after a change found the call taken, who has it. */
export function holderOf({ read, sealed }: Pick<StoreContext, 'read' | 'sealed'>) {
  const find = read((record: string) => findCall(sealed, record))
  return async (record: string): Promise<{ readonly kind: 'found'; readonly record: CallRecord }> => {
    const holder = await find(record)
    if (holder !== undefined) return { kind: 'found', record: holder }
    throw new StoreError('not_written', 'a call vanished while it was being changed')
  }
}

function* claimCall(group: CommitGroup, call: NewCall): Steps<Claimed | typeof RUN_ENDED | typeof TAKEN> {
  const { tenant, principal, session, atMs } = call
  const run = runOf(call)
  if (run !== undefined) {
    // Whose key it is comes first (rule 1): a claim that loses neither makes a run nor asks whether it has ended.
    if ((yield* get('callerOf', call.record)) !== undefined) return TAKEN
    if (!(yield* openRun({ tenant, run, principal }, atMs))) return RUN_ENDED
  }
  const caller = yield* insertCall(group, { call, run, state: 'running' })
  if (caller === undefined) return TAKEN
  const position =
    run === undefined
      ? undefined
      : yield* beginAttempt(group, { call, run, attempt: 1, session, caller, atMs })
  group.append({ ...claimedEvent(call, 1, { atMs, parent: call.step?.parent }), ...position })
  return { kind: 'claimed', attempt: 1 }
}

function* insertFinished(
  group: CommitGroup,
  call: NewCall,
  finished: Omit<FinishedRun, 'run'>,
): Steps<Recorded | typeof TAKEN> {
  const { state } = finished
  if ((yield* insertCall(group, { call, run: runOf(call), state, finished })) === undefined) return TAKEN
  group.append(endedEvent(call, 1, finished))
  return { kind: 'recorded' }
}

function* reclaimCall(
  group: CommitGroup,
  seen: CallRecord,
  next: NextAttempt,
): Steps<Claimed | typeof RUN_ENDED | typeof TAKEN> {
  const begun = yield* beginNext(group, seen, next, 'running')
  if (!('position' in begun)) return begun.kind === 'taken' ? TAKEN : RUN_ENDED
  const { attempt, position } = begun
  group.append({ ...claimedEvent(seen, attempt, { atMs: next.atMs, parent: seen.parent }), ...position })
  return { kind: 'claimed', attempt }
}

/** A call that waits for a yes: its row and the first event of its run, which it always has (rule 20). */
export function* parkCall(
  group: CommitGroup,
  call: NewCall,
): Steps<Parked | typeof RUN_ENDED | typeof TAKEN> {
  const { tenant, principal, session, atMs } = call
  const run = runOf(call) ?? call.record
  if ((yield* get('callerOf', call.record)) !== undefined) return TAKEN
  if (!(yield* openRun({ tenant, run, principal }, atMs))) return RUN_ENDED
  const caller = yield* insertCall(group, { call, run, state: 'parked' })
  if (caller === undefined) return TAKEN
  const position = yield* beginAttempt(group, { call, run, attempt: 1, session, caller, atMs })
  return { kind: 'parked', attempt: 1, run, caller, position }
}

/** The same for its next attempt. */
export function* parkCallAgain(
  group: CommitGroup,
  seen: CallRecord,
  next: NextAttempt,
): Steps<Parked | typeof RUN_ENDED | typeof TAKEN> {
  const begun = yield* beginNext(group, seen, next, 'parked')
  if (!('position' in begun)) return begun.kind === 'taken' ? TAKEN : RUN_ENDED
  return { kind: 'parked', ...begun }
}

function* beginNext(
  group: CommitGroup,
  seen: CallRecord,
  next: NextAttempt,
  as: 'running' | 'parked',
): Steps<Omit<Parked, 'kind'> | { readonly kind: 'taken' | 'run_ended' }> {
  const { tenant, principal, record, state, attempt, writer, sessionId } = seen
  const { session, atMs, corrected } = next
  const run = seen.run ?? record
  const before = yield* get('findCall', record)
  if (before === undefined || !isStillFree(before, seen)) return { kind: 'taken' }
  if (run !== record && !(yield* openRun({ tenant, run, principal }, atMs))) return RUN_ENDED
  const values = [as, group.writer, session?.sessionId ?? null, record, state, attempt, writer]
  if ((yield* write('reclaimCall', ...values)) === 0) return { kind: 'taken' }
  yield* dropReplaced(before, 'outcome_group')
  yield* keepInRun(before, seen)
  if (state === 'running') {
    const cut = { row: { ...before, run }, record, attempt, sessionId, atMs }
    group.append({ ...cutEvent(seen, writer, atMs), ...(yield* cutAttempt(cut, 'cut')) })
    // An attempt that never began holds a session nobody else would close.
    if (session?.isOwn === true && sessionId !== undefined) {
      yield* closeSession(group, { tenant, sessionId }, 'failed', atMs)
    }
  }
  const caller =
    corrected === undefined ? callerSlice(before) : yield* correct(group, { before, seen, corrected, atMs })
  const begun = { call: seen, run, attempt: attempt + 1, session, caller, atMs }
  return { attempt: attempt + 1, run, caller, position: yield* beginAttempt(group, begun) }
}

/** Rule 9: what the call is from this attempt on. Gives where its caller text went. */
function* correct(group: CommitGroup, { before, seen, corrected, atMs }: CorrectedCall): Steps<Slice> {
  const { record, fingerprint, inputJson } = corrected
  const caller = group.addCaller(boundText(record, callerToText(corrected)))
  const input = group.addPayload(boundText(record, inputJson))
  const slices = [group.id, caller.at, caller.length, input.at, input.length]
  yield* write('correctCall', fingerprint, ...slices, record)
  yield* write('dropReference', 1, 1, integer(before, 'claim_group'))
  group.addReference()
  group.append(correctedEvent(seen, corrected, atMs))
  return caller
}

function* finishCall(group: CommitGroup, finished: FinishedRun): Steps<Recorded | typeof TAKEN> {
  const { run, state, outcome, atMs } = finished
  const slice = group.addPayload(boundText(run.record, outcomeToText(outcome)))
  const changed = yield* write(
    'finishCall',
    state,
    atMs,
    slice.group,
    slice.at,
    slice.length,
    run.record,
    run.attempt,
    group.writer,
  )
  if (changed === 0) return TAKEN
  group.addReference()
  const position = yield* endAttempt(run, outcome, atMs)
  group.append({ ...endedEvent(run, run.attempt, { state, outcome, atMs }), ...position })
  yield* endOwnSession(group, run, outcome, atMs)
  return { kind: 'recorded' }
}

function* recordLate(group: CommitGroup, run: Attempt, outcome: Outcome, atMs: number): Steps<void> {
  const slice = group.addPayload(boundText(run.record, outcomeToText(outcome)))
  if ((yield* write('lateCall', slice.group, slice.at, slice.length, run.record, run.attempt)) > 0) {
    group.addReference()
  }
  group.append(endedEvent(run, run.attempt, { state: 'late', outcome, atMs }))
}

function* requestCancel(
  group: CommitGroup,
  { tenant, record }: CallAddress,
  by: string,
  atMs: number,
): Steps<boolean> {
  if ((yield* write('requestCancel', record, tenant)) === 0) return false
  const row = (yield* get('findCall', record)) ?? {}
  group.append(cancelRequestedEvent(subjectFromRow(row), by, atMs))
  return true
}

/** Whether there is something to settle. */
function* findUnsettled(record: string): Steps<Row | Exclude<SettleResult, 'settled'>> {
  const row = yield* get('findCall', record)
  if (row === undefined) return 'not_found'
  return text(row, 'state') === 'ambiguous' ? row : 'not_ambiguous'
}

function* settleCall(group: CommitGroup, settlement: Settlement): Steps<SettleResult> {
  const row = yield* findUnsettled(settlement.record)
  if (typeof row === 'string') return row
  if (settlement.as === 'not-run') {
    yield* dropReferences([row])
    yield* deleteCall(settlement.record)
    yield* removeRun(settlement.record)
  } else {
    // Calls from before there were runs: what was told of their end does not change with their outcome.
    yield* keepInRun(row, toldByRow(row, 'ambiguous'))
    const outcome = settledOutcome(settlement)
    const slice: Slice | typeof NO_SLICE =
      outcome === undefined
        ? NO_SLICE
        : group.addPayload(boundText(settlement.record, outcomeToText(outcome)))
    if (outcome !== undefined) group.addReference()
    const { as, atMs, record } = settlement
    yield* write('settleCall', as, atMs, slice.group, slice.at, slice.length, record)
  }
  group.append(settledEvent(subjectFromRow(row), settlement))
  return 'settled'
}

/** A group kept for a text that nothing points to any more would never be forgotten (rule 13). */
function* dropReplaced(row: Row | undefined, slot: 'outcome_group' | 'late_group'): Steps<void> {
  const replaced = row === undefined ? undefined : optionalInteger(row, slot)
  if (replaced !== undefined) yield* write('dropReference', 1, 1, replaced)
}

function* readCall(sealed: SealedText, record: string): Steps<CallRecord | undefined> {
  const row = yield* get('findCall', record)
  return row === undefined ? undefined : yield* callFromRow(row, sealed)
}

/** Where the caller text went; `undefined` when the key is taken. */
function* insertCall(
  group: CommitGroup,
  { call, run, state, finished }: InsertedCall,
): Steps<Slice | undefined> {
  const caller = group.addCaller(boundText(call.record, callerToText(call)))
  const input = group.addPayload(boundText(call.record, call.inputJson))
  const outcome =
    finished === undefined
      ? NO_SLICE
      : group.addPayload(boundText(call.record, outcomeToText(finished.outcome)))
  const inserted = yield* write(
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
    group.writer,
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

/** Whether the call waits for its next attempt and nobody took it since it was seen. */
function isStillFree(row: Row, { state, attempt, writer }: CallRecord): boolean {
  const isSame =
    text(row, 'state') === state && integer(row, 'attempt') === attempt && text(row, 'writer_id') === writer
  return isSame && (state === 'released' || state === 'running') && integer(row, 'expired') === 0
}

const SLOTS = ['claim_group', 'outcome_group', 'late_group'] as const

/** Lets go of what these calls hold in their groups; a group nobody holds loses its payload. */
export function* dropReferences(calls: readonly Row[]): Steps<void> {
  const dropped = new Map<number, number>()
  for (const call of calls) {
    for (const slot of SLOTS) {
      const group = optionalInteger(call, slot)
      if (group !== undefined) dropped.set(group, (dropped.get(group) ?? 0) + 1)
    }
  }
  for (const [group, count] of dropped) yield* write('dropReference', count, count, group)
}

/** A call goes with what was asked about it. */
export function* deleteCall(record: string): Steps<void> {
  const deleted = yield* get('deleteCall', record)
  if (deleted !== undefined) yield* deleteApprovalsOf(deleted)
}

/** What was asked about a call that is deleted, with the words of its approvers and the messages about it. */
export function* deleteApprovalsOf(deleted: Row): Steps<void> {
  if (integer(deleted, 'approvals') === 0) return
  const record = text(deleted, 'record')
  yield* write('deleteDecisionsOfCall', record)
  yield* write('deleteNoticesOfCall', record)
  yield* write('deleteApprovalsOfCall', record)
}

/** What a settled call answers from now on; `undefined` when it took effect but nobody knows the value (rule 12). */
export function settledOutcome(settlement: Settlement): Outcome | undefined {
  const { as, valueJson, error } = settlement
  if (as === 'succeeded') return valueJson === undefined ? undefined : { ok: true, valueJson }
  return error === undefined ? undefined : { ok: false, error }
}

/** For operators: a record whose contents cannot be read is shown without them, not hidden with all others. */
function* showCall(row: Row, sealed: SealedText): Steps<CallRecord> {
  try {
    return yield* callFromRow(row, sealed)
  } catch (error) {
    if (error instanceof StoreError && error.code === 'unreadable')
      return yield* callFromRow(row, unreadableText(row))
    throw error
  }
}

function* showCalls(rows: readonly Row[], sealed: SealedText): Steps<readonly CallRecord[]> {
  const calls: CallRecord[] = []
  for (const row of rows) calls.push(yield* showCall(row, sealed))
  return calls
}
