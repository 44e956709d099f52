import type { PinnedSource, PinRecord, PinStore, PinWrite } from '#core/ports/pin-store'
import { pinFromRow } from '#store/sql/pin-row'
import { integer, text } from '#store/sql/row'
import type { StoreWays } from './key-changes.ts'

/** Pins in SQLite; each write, its epoch and its journal events are one transaction. */
export class SqlitePins implements PinStore {
  readonly #ways: StoreWays

  constructor(ways: StoreWays) {
    this.#ways = ways
  }

  read(source: string): PinnedSource {
    const { database, read } = this.#ways
    return read(() =>
      database.snapshot(() => ({
        source,
        revision: this.#revision(source),
        pins: database.all('pinsOf', source).map(pinFromRow),
      })),
    )
  }

  revision(source: string): number {
    return this.#ways.read(() => this.#revision(source))
  }

  write({ source, seen, pins, changesServed, events }: PinWrite): Promise<'written' | 'stale'> {
    const { database } = this.#ways
    return this.#ways.submit(`pins ${source}`, (group) => {
      const isOurs =
        seen === 0 ? database.run('insertPinSource', source) : database.run('raisePinRevision', source, seen)
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

  #revision(source: string): number {
    const row = this.#ways.database.get('pinRevision', source)
    return row === undefined ? 0 : integer(row, 'revision')
  }

  #writePin(source: string, { nativeName, local, isServed, accepted, waiting }: PinRecord): void {
    this.#ways.database.run(
      'writePin',
      source,
      nativeName,
      local,
      isServed ? 1 : 0,
      accepted === undefined ? null : JSON.stringify(accepted),
      waiting === undefined ? null : JSON.stringify(waiting),
    )
  }
}
