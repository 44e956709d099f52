import type { RunPosition } from '#core/journal/events'
import type { RunAddress, RunRecord } from '#core/ports/store'
import { opens, type RunEvent, type RunFact } from '#core/runs/events'
import { isRunEnded } from '#core/runs/runs'
import { type SealedText, withToolId } from '#store/sql/call-row'
import type { OpenGroup, Slice } from '#store/sql/open-group'
import { integer, text } from '#store/sql/row'
import { factToText, runEventFromRow, runFromRow } from '#store/sql/run-row'
import type { ApprovalReasons } from './approval-reasons.ts'
import type { Database } from './database.ts'

/** A fact and when it became one; `caller` is where the caller text of its call lies. */
export interface NewFact {
  readonly fact: RunFact
  readonly caller: Slice | undefined
  readonly atMs: number
}

const NO_SLICE = { group: null, at: null, length: null } as const

/** Every change of a run, each inside a commit group that the caller opened. */
export class RunChanges {
  readonly #database: Database
  readonly #sealed: SealedText
  readonly #reasons: ApprovalReasons

  constructor(database: Database, sealed: SealedText, reasons: ApprovalReasons) {
    this.#database = database
    this.#sealed = sealed
    this.#reasons = reasons
  }

  find({ tenant, run }: RunAddress): RunRecord | undefined {
    const row = this.#database.get('findRun', run)
    const found = row === undefined ? undefined : runFromRow(row)
    return found?.tenant === tenant ? found : undefined
  }

  read(address: RunAddress, after: number, limit: number): readonly RunEvent[] {
    const row = this.#database.get('findRun', address.run)
    if (row === undefined || runFromRow(row).tenant !== address.tenant) return []
    return this.#database
      .all('runEventsAfter', integer(row, 'no'), after, limit)
      .map((event) => this.#withToolId(this.#reasons.openIn(runEventFromRow(event, this.#sealed))))
  }

  /** Makes the run if it is new; `false` when it takes nothing any more. */
  open(place: RunAddress & { readonly principal: string }, atMs: number): boolean {
    const { run, tenant, principal } = place
    if (this.#database.run('insertRun', run, tenant, principal, atMs) > 0) return true
    const found = this.find(place)
    return found !== undefined && !isRunEnded(found, atMs)
  }

  append(run: string, { fact, caller, atMs }: NewFact): RunPosition {
    const row = this.#database.get('takeSequence', opens(fact), atMs, run) ?? {}
    const sequence = integer(row, 'sequence')
    const { group, at, length } = caller ?? NO_SLICE
    this.#database.run(
      'insertRunEvent',
      integer(row, 'no'),
      sequence,
      atMs,
      factToText(fact),
      group,
      at,
      length,
    )
    return { run, sequence }
  }

  end(group: OpenGroup, address: RunAddress, atMs: number): boolean {
    const found = this.find(address)
    if (found === undefined || isRunEnded(found, atMs)) return false
    const { run, tenant } = address
    if (this.#database.run('endRun', atMs, run, tenant) === 0) return false
    group.append({ type: 'run.ended', at: atMs, run, tenant, principal: found.principal })
    return true
  }

  /** Removes up to `limit` events of a run, and the run with its last one; gives how much went. */
  forget(no: number, limit: number): number {
    return this.#database.run('deleteRunEvents', no, no, limit) + this.#database.run('deleteRun', no)
  }

  #withToolId(event: RunEvent): RunEvent {
    if (!('call' in event) || event.call.toolId !== '') return event
    const row = this.#database.get('findCall', event.record)
    return row === undefined ? event : { ...event, call: withToolId(event.call, text(row, 'tool')) }
  }

  /** The run of a call that never happened, after all. */
  remove(run: string): void {
    const row = this.#database.get('findRun', run)
    if (row !== undefined) this.forget(integer(row, 'no'), Number.MAX_SAFE_INTEGER)
  }
}
