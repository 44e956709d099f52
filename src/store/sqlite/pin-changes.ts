import { StoreError } from '#core/errors'
import {
  nextRevision,
  type PinnedSource,
  type PinRecord,
  type PinStore,
  type PinWrite,
} from '#core/ports/import-store'
import { Breather } from '#core/runtime'
import { pinFromRow } from '#store/sql/pin-row'
import { integer, text } from '#store/sql/row'
import type { StoreWays } from './key-changes.ts'

/** Rows are read in pages, so that a source with many tools does not hold the serving thread. */
const PAGE_ROWS = 50
/** Somebody wrote while the pages were read; more often than this is a fault. */
const MOST_READS = 20

/** Pins in SQLite; each write, its epoch and its journal events are one transaction. */
export class SqlitePins implements PinStore {
  readonly #ways: StoreWays

  constructor(ways: StoreWays) {
    this.#ways = ways
  }

  async read(source: string): Promise<PinnedSource> {
    for (let tries = 0; tries < MOST_READS; tries += 1) {
      const revision = this.revision(source)
      const pins = await this.#readPages(source)
      if (this.revision(source) === revision) return { source, revision, pins }
    }
    throw new StoreError('unreadable', `others kept changing the pins of ${source}`)
  }

  revision(source: string): number {
    return this.#ways.read(() => this.#revision(source))
  }

  write(change: PinWrite): Promise<'written' | 'stale'> {
    const { source, seen, pins, changesServed, events } = change
    const { database } = this.#ways
    const next = nextRevision(change)
    return this.#ways.submit(`pins ${source}`, (group) => {
      const isOurs =
        seen === 0
          ? database.run('insertPinSource', source, next)
          : database.run('raisePinRevision', next, source, seen)
      if (isOurs === 0) return 'stale'
      for (const pin of pins) this.#writePin(source, pin)
      if (changesServed) database.run('raisePinEpoch')
      for (const event of events) group.append(event)
      return 'written'
    })
  }

  sources(): readonly string[] {
    const { database, read } = this.#ways
    return read(() => database.all('pinSources').map((row) => text(row, 'source')))
  }

  epoch(): number {
    const { database, read } = this.#ways
    const row = read(() => database.get('readMeta', 'pin_epoch'))
    return row === undefined ? 0 : Number(text(row, 'value'))
  }

  async #readPages(source: string): Promise<readonly PinRecord[]> {
    const { database, read } = this.#ways
    const breather = new Breather()
    const pins: PinRecord[] = []
    let after = ''
    for (;;) {
      const rows = read(() => database.all('pinsAfter', source, after, PAGE_ROWS))
      after = String(rows.at(-1)?.native_name ?? after)
      for (const row of rows) {
        // A pin that is not ours is none: its tool waits to be let in again.
        if (database.isOwn('pins', row)) pins.push(read(() => pinFromRow(row)))
        if (breather.isDue) await breather.breathe()
      }
      if (rows.length < PAGE_ROWS) return pins
    }
  }

  #revision(source: string): number {
    const row = this.#ways.database.get('pinRevision', source)
    return row === undefined ? 0 : integer(row, 'revision')
  }

  #writePin(source: string, { nativeName, local, isServed, accepted, waiting }: PinRecord): void {
    const { database } = this.#ways
    const row = {
      source,
      native_name: nativeName,
      local,
      served: isServed ? 1 : 0,
      accepted: accepted === undefined ? null : JSON.stringify(accepted),
      waiting: waiting === undefined ? null : JSON.stringify(waiting),
    }
    database.run('writePin', ...Object.values(row), database.macOf('pins', row))
  }
}
