import { StoreError } from '#core/errors'
import { endedEvent, resumedEvent, suspendedEvent } from '#core/journal/append'
import type { EndedParked } from '#core/ports/approval-store'
import type {
  Attempt,
  CallAddress,
  CallRecord,
  ClaimResult,
  FinishResult,
  Suspending,
  WorkflowStore,
} from '#core/ports/store'
import { endSuspended } from '#core/workflow/suspend'
import { type Database, storeErrorOf } from '#store/sqlite/database'
import type { CallChanges } from './calls.ts'
import type { CommitQueue } from './commit-queue.ts'
import type { CommitGroup } from './engine.ts'
import { boundText, optionalText, outcomeToText, subjectFromRow, text } from './rows.ts'
import type { CallRunEvents } from './runs.ts'
import type { Row } from './steps.ts'

const STEP = 100

interface Parts {
  readonly database: Database
  readonly calls: CallChanges
  readonly runEvents: CallRunEvents
  readonly queue: CommitQueue
  readonly writerNo: () => number
}

/** Workflows that are put away, each change one transaction with its events. */
export class SqliteWorkflows implements WorkflowStore {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  async suspend(run: Attempt, { waitsFor, atMs }: Suspending): Promise<FinishResult> {
    const { queue, database, writerNo } = this.#parts
    const { record, attempt } = run
    const isOurs = await queue.submit(record, (group) => {
      if (database.run('suspendCall', waitsFor, record, attempt, writerNo()) === 0) return false
      group.append(suspendedEvent(run, waitsFor, atMs))
      return true
    })
    return isOurs ? { kind: 'recorded' } : this.#holderOf(record)
  }

  async resume(
    seen: CallRecord,
    { atMs, rerunUntilMs }: { readonly atMs: number; readonly rerunUntilMs: number },
  ): Promise<ClaimResult> {
    const { queue, database, writerNo } = this.#parts
    const { record, attempt } = seen
    const isOurs = await queue.submit(record, (group) => {
      if (database.run('resumeSuspended', writerNo(), rerunUntilMs, record, attempt) === 0) return false
      group.append(resumedEvent(seen, atMs))
      return true
    })
    return isOurs ? { kind: 'claimed', attempt } : this.#holderOf(record)
  }

  /** Looks before it writes: most calls that are cancelled are no such call. */
  async cancel({ tenant, record }: CallAddress, by: string, atMs: number): Promise<readonly EndedParked[]> {
    const find = () => this.#parts.database.get('suspendedCall', record, tenant)
    if (this.#read(find) === undefined) return []
    return await this.#parts.queue.submit(record, (group) => {
      const row = find()
      return row === undefined ? [] : this.#end(group, row, { why: 'cancelled', atMs, by })
    })
  }

  async expire(nowMs: number): Promise<readonly EndedParked[]> {
    const { queue, database } = this.#parts
    if (this.#read(() => database.get('expiredSuspended', nowMs, 1)) === undefined) return []
    return await queue.submit('', (group) =>
      database
        .all('expiredSuspended', nowMs, STEP)
        .flatMap((row) => this.#end(group, row, { why: 'expired', atMs: nowMs })),
    )
  }

  openSteps({ record, tenant }: CallAddress): readonly CallAddress[] {
    return this.#read(() => this.#parts.database.all('openSteps', record))
      .map((row) => ({ tenant: text(row, 'tenant'), record: text(row, 'record') }))
      .filter((step) => step.tenant === tenant)
  }

  #end(
    group: CommitGroup,
    row: Row,
    { why, atMs }: { readonly why: 'cancelled' | 'expired'; readonly atMs: number; readonly by?: string },
  ): readonly EndedParked[] {
    const { database, runEvents } = this.#parts
    const subject = subjectFromRow(row)
    const { record, attempt } = subject
    const outcome = endSuspended(subject.tool, why)
    const slice = group.addPayload(boundText(record, outcomeToText(outcome)))
    const place = [slice.group, slice.at, slice.length]
    if (database.run('endSuspended', atMs, ...place, record) === 0) return []
    group.addReference()
    const run = optionalText(row, 'run') ?? record
    const position = runEvents.end({ ...subject, run, session: undefined }, outcome, atMs)
    group.append({ ...endedEvent(subject, attempt, { state: 'failed', outcome, atMs }), ...position })
    return [{ record, run }]
  }

  #holderOf(record: string): { readonly kind: 'found'; readonly record: CallRecord } {
    const holder = this.#read(() => this.#parts.calls.find(record))
    if (holder !== undefined) return { kind: 'found', record: holder }
    throw new StoreError('not_written', 'a call vanished while it was being changed')
  }

  #read<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      throw storeErrorOf(error, 'cannot read the database')
    }
  }
}
