import { endedEvent, resumedEvent, suspendedEvent } from '#core/journal/append'
import type { JournalEvent } from '#core/journal/events'
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
import { putAwayEnd } from '#core/workflow/suspend'
import type { MemoryRow } from './memory-row.ts'
import type { MemoryRunEvents } from './memory-run-events.ts'

interface Parts {
  readonly rows: ReadonlyMap<string, MemoryRow>
  readonly runEvents: MemoryRunEvents
  readonly writer: string
  append(event: JournalEvent): void
}

/** The memory store's workflows that are put away, with the same rules as any other's. */
export class MemoryWorkflows implements WorkflowStore {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  suspend(run: Attempt, { waitsFor, atMs }: Suspending): FinishResult {
    const row = this.#row(run.record)
    if (row.state !== 'running' || row.attempt !== run.attempt || !row.resumable) {
      return { kind: 'found', record: { ...row } }
    }
    row.state = 'parked'
    row.waitsFor = waitsFor
    this.#parts.append(suspendedEvent(row, waitsFor, atMs))
    return { kind: 'recorded' }
  }

  resume(
    seen: CallRecord,
    { atMs, rerunUntilMs }: { readonly atMs: number; readonly rerunUntilMs: number },
  ): ClaimResult {
    const row = this.#row(seen.record)
    if (!isPutAway(row) || row.attempt !== seen.attempt) return { kind: 'found', record: { ...row } }
    row.state = 'running'
    row.waitsFor = undefined
    row.writer = this.#parts.writer
    row.cancelRequested = false
    row.rerunUntilMs = rerunUntilMs
    this.#parts.append(resumedEvent(row, atMs))
    return { kind: 'claimed', attempt: row.attempt }
  }

  cancel({ tenant, record }: CallAddress, _by: string, atMs: number): readonly EndedParked[] {
    const row = this.#parts.rows.get(record)
    if (row === undefined || row.tenant !== tenant || !isPutAway(row)) return []
    return [this.#end(row, 'cancelled', atMs)]
  }

  expire(nowMs: number): readonly EndedParked[] {
    return [...this.#parts.rows.values()]
      .filter((row) => isPutAway(row) && row.rerunUntilMs <= nowMs)
      .map((row) => this.#end(row, 'expired', nowMs))
  }

  openSteps({ tenant, record }: CallAddress): readonly CallAddress[] {
    return [...this.#parts.rows.values()]
      .filter((row) => row.parent === record && row.tenant === tenant)
      .filter(({ state }) => state === 'running' || state === 'parked')
      .map((row) => ({ tenant: row.tenant, record: row.record }))
  }

  #end(row: MemoryRow, why: 'cancelled' | 'expired', atMs: number): EndedParked {
    const { runEvents, append } = this.#parts
    const outcome = putAwayEnd(row.tool, why)
    row.state = 'failed'
    row.waitsFor = undefined
    row.outcome = outcome
    row.finishedAtMs = atMs
    const ended = endedEvent(row, row.attempt, { state: 'failed', outcome, atMs })
    append({ ...ended, ...runEvents.end(row, outcome, atMs) })
    return { record: row.record, run: row.run ?? row.record }
  }

  #row(record: string): MemoryRow {
    const row = this.#parts.rows.get(record)
    if (row === undefined) throw new Error('the workflow to change is gone')
    return row
  }
}

function isPutAway({ state, waitsFor }: MemoryRow): boolean {
  return state === 'parked' && waitsFor !== undefined
}
