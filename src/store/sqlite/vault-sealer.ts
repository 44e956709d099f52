import { StoreError } from '#core/errors'
import { newDataKey, sealOnce, unseal } from '#store/keys/sealer'
import { bytes, integer, optionalBytes, type Row } from '#store/sql/row'
import type { Database } from './database.ts'

/** A data key of one tenant, ready for use. */
export interface VaultKey {
  readonly no: number
  readonly key: Buffer
}

/** The vault's envelope: values under a random key of their tenant, that key under one derived from `COLLET_KEY`. */
export class VaultSealer {
  readonly #database: Database
  readonly #wrapKey: Buffer

  constructor(database: Database, wrapKey: Buffer) {
    this.#database = database
    this.#wrapKey = wrapKey
  }

  /** The key new values are sealed under, made with the first one; inside a transaction, so there is one. */
  keyOf(tenant: string, atMs: number): VaultKey {
    const row = this.#database.get('newestVaultKey', tenant)
    return row === undefined
      ? this.makeKey(tenant, atMs)
      : { no: integer(row, 'no'), key: this.#unwrap(row, tenant) }
  }

  /** Outside a commit: an unreadable key is the trouble of its own tenant, not of all who are committed together. */
  checkKey(tenant: string): void {
    const row = this.#database.get('newestVaultKey', tenant)
    if (row !== undefined) this.#unwrap(row, tenant)
  }

  makeKey(tenant: string, atMs: number): VaultKey {
    const key = newDataKey()
    const wrapped = sealOnce(this.#wrapKey, key, keyPlace(tenant))
    const row = this.#database.get('insertVaultKey', tenant, wrapped, atMs) ?? {}
    return { no: integer(row, 'no'), key }
  }

  seal({ key }: VaultKey, plain: string, place: readonly string[]): Buffer {
    return sealOnce(key, Buffer.from(plain), JSON.stringify(place))
  }

  /** Under the key of something that is sealed already. */
  sealBeside(
    row: Row,
    plain: string,
    at: { readonly tenant: string; readonly place: readonly string[] },
  ): Buffer {
    return sealOnce(this.#unwrap(row, at.tenant), Buffer.from(plain), JSON.stringify(at.place))
  }

  /** `row` holds the sealed column and its key; what does not fit its place is unreadable (rule 14). */
  unseal(
    row: Row,
    column: string,
    at: { readonly tenant: string; readonly place: readonly string[] },
  ): string {
    return unseal(this.#unwrap(row, at.tenant), bytes(row, column), JSON.stringify(at.place)).toString('utf8')
  }

  #unwrap(row: Row, tenant: string): Buffer {
    const wrapped = optionalBytes(row, 'wrapped')
    if (wrapped === null)
      throw new StoreError('unreadable', `the data key of something in the vault of tenant ${tenant} is gone`)
    return unseal(this.#wrapKey, wrapped, keyPlace(tenant))
  }
}

function keyPlace(tenant: string): string {
  return JSON.stringify(['vault key', tenant])
}
