import { StoreError } from '#core/errors'
import { unseal, unwrapDataKey } from '#store/keys/sealer'
import type { Slice } from '#store/sql/open-group'
import { bytes, integer, optionalBytes, text } from '#store/sql/row'
import type { Database } from './database.ts'

const MOST_BYTES = 16 * 1024 * 1024

export type Segment = 'callers' | 'payload'

/** Reads sealed texts back. Recently opened groups are kept: a replayed call is often followed by its neighbours. */
export class GroupContents {
  readonly #database: Database
  readonly #wrapKey: Buffer
  readonly #dataKeys = new Map<number, { readonly id: string; readonly key: Buffer }>()
  readonly #opened = new Map<string, Buffer>()
  #bytes = 0

  constructor(database: Database, wrapKey: Buffer) {
    this.#database = database
    this.#wrapKey = wrapKey
  }

  read(segment: Segment, slice: Slice): string {
    const plain = this.#open(segment, slice.group)
    return plain.toString('utf8', slice.at, slice.at + slice.length)
  }

  #open(segment: Segment, group: number): Buffer {
    const name = `${segment} ${group}`
    const known = this.#opened.get(name)
    if (known !== undefined) return known
    const row = this.#database.get('groupContents', group)
    const sealed = row === undefined ? null : optionalBytes(row, segment)
    if (row === undefined || sealed === null) {
      throw new StoreError(
        'unreadable',
        `the ${segment} of commit group ${group} are gone although a call needs them`,
      )
    }
    const { id, key } = this.#dataKey(integer(row, 'writer'))
    const plain = unseal(key, sealed, placeOf(segment, id, integer(row, 'n')))
    this.#remember(name, plain)
    return plain
  }

  #remember(name: string, plain: Buffer): void {
    if (plain.length > MOST_BYTES) return
    this.#opened.set(name, plain)
    this.#bytes += plain.length
    for (const [oldest, { length }] of this.#opened) {
      if (this.#bytes <= MOST_BYTES) return
      this.#opened.delete(oldest)
      this.#bytes -= length
    }
  }

  #dataKey(writerNo: number): { readonly id: string; readonly key: Buffer } {
    const known = this.#dataKeys.get(writerNo)
    if (known !== undefined) return known
    const row = this.#database.get('writerByNo', writerNo)
    if (row === undefined)
      throw new StoreError('unreadable', `writer ${writerNo} of a commit group is unknown`)
    const id = text(row, 'id')
    const opened = { id, key: unwrapDataKey(this.#wrapKey, bytes(row, 'data_key'), id) }
    this.#dataKeys.set(writerNo, opened)
    return opened
  }
}

/** What a sealed segment is bound to: it cannot be moved to another group, writer or segment. */
export function placeOf(segment: Segment, writer: string, group: number): string {
  return `commit_groups ${segment} ${writer} ${group}`
}
