import { StoreError } from '#core/errors'
import { sourcePutEvent, sourceRemovedEvent } from '#core/journal/append'
import { isJsonObject, isRecord, type JsonObject, type JsonValue } from '#core/json'
import {
  type AcceptedDefinition,
  type KeptDefinition,
  type NewSource,
  nextRevision,
  type PinnedSource,
  type PinRecord,
  type PinStore,
  type PinWrite,
  type SourceRemoval,
  type SourceStore,
  type StoredSource,
  type WaitingChange,
} from '#core/ports/import-store'
import { Breather } from '#core/runtime'
import { sealOnce, unseal } from './encryption.ts'
import type { StoreContext } from './keys.ts'
import { bytes, integer, optionalText, type Row, text } from './rows.ts'

/** Stored sources in SQLite; each change and its epoch are one transaction with the journal. */
export class SqliteSources implements SourceStore {
  readonly #ways: StoreContext
  readonly #sealingKey: Buffer

  constructor(ways: StoreContext, sealingKey: Buffer) {
    this.#ways = ways
    this.#sealingKey = sealingKey
  }

  list(): readonly StoredSource[] {
    const { database, read } = this.#ways
    return read(() => database.all('listSources').map((row) => this.#sourceOf(row)))
  }

  put(source: NewSource): Promise<'added' | 'replaced' | 'exists'> {
    const { database, submit } = this.#ways
    const { key, options, addedBy, addedMs, replace } = source
    const sealed = sealOnce(this.#sealingKey, Buffer.from(JSON.stringify(options)), placeOf(key))
    return submit(`sources ${key}`, (group) => {
      const isThere = database.get('hasSource', key) !== undefined
      if (isThere && !replace) return 'exists'
      database.run('putSource', key, sealed, addedBy, addedMs)
      database.run('raiseSourceEpoch')
      const result = isThere ? 'replaced' : 'added'
      group.append(sourcePutEvent(source, result))
      return result
    })
  }

  remove(removal: SourceRemoval): Promise<boolean> {
    const { database, submit } = this.#ways
    return submit(`sources ${removal.key}`, (group) => {
      if (database.run('deleteSource', removal.key) === 0) return false
      database.run('raiseSourceEpoch')
      group.append(sourceRemovedEvent(removal))
      return true
    })
  }

  epoch(): number {
    const { database, read } = this.#ways
    const row = read(() => database.get('readMeta', 'source_epoch'))
    return row === undefined ? 0 : Number(text(row, 'value'))
  }

  #sourceOf(row: Row): StoredSource {
    const key = text(row, 'key')
    return {
      key,
      options: readOptions(key, unseal(this.#sealingKey, bytes(row, 'options'), placeOf(key))),
      addedBy: text(row, 'added_by'),
      addedMs: integer(row, 'added_at'),
    }
  }
}

/** Bound to the key: options cannot be moved to another source. */
function placeOf(key: string): string {
  return `source ${key}`
}

function readOptions(key: string, plain: Buffer): JsonObject {
  const options: JsonValue = JSON.parse(plain.toString('utf8'))
  if (isJsonObject(options)) return options
  throw new StoreError('unreadable', `the options of source ${key} are no object`)
}

/** Rows are read in pages, so that a source with many tools does not hold the serving thread. */
const PAGE_ROWS = 50
/** Somebody wrote while the pages were read; more often than this is a fault. */
const MOST_READS = 20

/** Pins in SQLite; each write, its epoch and its journal events are one transaction. */
export class SqlitePins implements PinStore {
  readonly #ways: StoreContext

  constructor(ways: StoreContext) {
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

function pinFromRow(row: Row): PinRecord {
  return {
    nativeName: text(row, 'native_name'),
    local: text(row, 'local'),
    accepted: read(optionalText(row, 'accepted'), isAccepted),
    isServed: integer(row, 'served') === 1,
    waiting: read(optionalText(row, 'waiting'), isWaiting),
  }
}

/** What was not written by us is damage, never a definition. */
function read<Value>(json: string | undefined, is: (value: unknown) => value is Value): Value | undefined {
  if (json === undefined) return undefined
  const value: unknown = JSON.parse(json)
  if (is(value)) return value
  throw new StoreError('unreadable', 'the database holds a pinned definition that cannot be read')
}

function isAccepted(value: unknown): value is AcceptedDefinition {
  return isKept(value) && 'version' in value && typeof value.version === 'string'
}

function isWaiting(value: unknown): value is WaitingChange {
  if (!isRecord(value) || !('kind' in value) || !('class' in value)) return false
  return !('definition' in value) || isKept(value.definition)
}

function isKept(value: unknown): value is KeptDefinition {
  if (!isRecord(value) || !('hash' in value) || typeof value.hash !== 'string') return false
  if (!('identity' in value) || !isRecord(value.identity)) return false
  if (!('offered' in value) || !isRecord(value.offered)) return false
  const { offered } = value
  return 'nativeName' in offered && 'inputSchema' in offered && 'binding' in offered && 'policy' in offered
}
