import { StoreError } from '#core/errors'
import { sourcePutEvent, sourceRemovedEvent } from '#core/journal/append'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { NewSource, SourceRemoval, SourceStore, StoredSource } from '#core/ports/import-store'
import { sealOnce, unseal } from '#store/keys/sealer'
import { bytes, integer, type Row, text } from '#store/sql/row'
import type { StoreWays } from './key-changes.ts'

/** Stored sources in SQLite; each change and its epoch are one transaction with the journal. */
export class SqliteSources implements SourceStore {
  readonly #ways: StoreWays
  readonly #sealingKey: Buffer

  constructor(ways: StoreWays, sealingKey: Buffer) {
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
