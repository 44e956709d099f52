import { cancelRequestedEvent, claimedEvent, endedEvent, settledEvent } from '#core/journal/call-events'
import type { Outcome } from '#core/outcome'
import type {
  Attempt,
  CallAddress,
  CallRecord,
  ClaimResult,
  FinishedRun,
  FinishResult,
  NewCall,
  Settlement,
  SettleResult,
} from '#core/ports/store'
import { StoreError } from '#core/store-error'
import { settledOutcome } from '#store/settled-outcome'
import { boundText, callerToText, callFromRow, type SealedText, subjectFromRow } from '#store/sql/call-row'
import type { OpenGroup, Slice } from '#store/sql/open-group'
import { outcomeToText } from '#store/sql/outcome-text'
import { optionalInteger, type Row, text } from '#store/sql/row'
import type { Database } from './database.ts'
import { dropReferences } from './drop-references.ts'

/**
 * Somebody else has the call. Its record is read after the commit: the winner may be in the very group that is
 * being put together, its text not sealed yet (rule 19).
 */
export const TAKEN = 'taken'

type Claimed = Extract<ClaimResult, { readonly kind: 'claimed' }>
type Recorded = Extract<FinishResult, { readonly kind: 'recorded' }>

const NO_SLICE = { group: null, at: null, length: null } as const

/** Every change of a call row, each inside a commit group that the caller opened. Conflicts are results (rule 19). */
export class CallChanges {
  readonly #database: Database
  readonly #sealed: SealedText
  readonly #writerNo: () => number

  constructor(parts: {
    readonly database: Database
    readonly sealed: SealedText
    readonly writerNo: () => number
  }) {
    this.#database = parts.database
    this.#sealed = parts.sealed
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

  claim(group: OpenGroup, call: NewCall): Claimed | typeof TAKEN {
    if (!this.#insert(group, call, undefined)) return TAKEN
    group.append(claimedEvent(call, 1, call.atMs))
    return { kind: 'claimed', attempt: 1 }
  }

  insertFinished(
    group: OpenGroup,
    call: NewCall,
    finished: Omit<FinishedRun, 'run'>,
  ): Recorded | typeof TAKEN {
    if (!this.#insert(group, call, finished)) return TAKEN
    group.append(endedEvent(call, 1, finished))
    return { kind: 'recorded' }
  }

  reclaim(group: OpenGroup, seen: CallRecord, atMs: number): Claimed | typeof TAKEN {
    const row = this.#database.get('findCall', seen.record)
    const { record, state, attempt, writer } = seen
    if (this.#database.run('reclaimCall', this.#writerNo(), record, state, attempt, writer) === 0) {
      return TAKEN
    }
    this.#dropReplaced(row, 'outcome_group')
    group.append(claimedEvent(seen, attempt + 1, atMs))
    return { kind: 'claimed', attempt: attempt + 1 }
  }

  finish(group: OpenGroup, finished: FinishedRun): Recorded | typeof TAKEN {
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
    group.append(endedEvent(run, run.attempt, { state, outcome, atMs }))
    return { kind: 'recorded' }
  }

  recordLate(
    group: OpenGroup,
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
    group: OpenGroup,
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

  settle(group: OpenGroup, settlement: Settlement): SettleResult {
    const row = this.findUnsettled(settlement.record)
    if (typeof row === 'string') return row
    if (settlement.as === 'not-run') {
      dropReferences(this.#database, [row])
      this.#database.run('deleteCall', settlement.record)
    } else {
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

  #insert(group: OpenGroup, call: NewCall, finished: Omit<FinishedRun, 'run'> | undefined): boolean {
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
      finished?.state ?? 'running',
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
    )
    if (inserted === 0) return false
    group.addReference()
    if (finished !== undefined) group.addReference()
    return true
  }
}
