import { createPrivateKey, generateKeyPairSync, hash, type KeyObject, sign } from 'node:crypto'
import { StoreError } from '#kernel/base/errors'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { KeyRing, ResealableRows } from '#kernel/store/key-ring'
import type { StoreModule } from '#kernel/store/module'
import { bytes, integer, optionalInteger, text } from '#kernel/store/rows'
import { KEY_ID_LENGTH, keyBytes, type ReceiptKey } from '#receipts/format'
import { type Attribution, texts } from '#store/steps'

/**
 * The Ed25519 keys that sign receipts. All servers of a store share them: the newest key signs, and earlier keys stay listed, because
 * receipts that they signed stay valid. Private keys are sealed together with everything that is published about them, so a key that
 * was written into the database without `COLLET_KEY` is never published.
 */

const { all, write } = statements<keyof typeof queries>()

export interface StoredReceiptKey extends ReceiptKey {
  readonly createdAtMs: number
  /** When a new key replaced it. */
  readonly retiredAtMs: number | undefined
}

export interface ReceiptSigner {
  readonly key: ReceiptKey
  sign(message: Uint8Array): Buffer
}

export function openReceiptKeys({
  read,
  exclusive,
  keys,
}: Pick<StoreContext, 'read' | 'exclusive' | 'keys'>) {
  const list = read(() => listKeys(keys))
  const make = exclusive(() => 'receipt keys', makeKey)
  const readSigner = read(() => signerOf(keys))
  return {
    /** Every key, the newest first. */
    list,
    /** Makes a key, which signs from now on. */
    rotate: (by: Attribution) => make(by, { isFirst: false }),
    /** Signs with the newest key; makes the first key if there is none. */
    async signer(by: Attribution): Promise<ReceiptSigner> {
      const found = await readSigner()
      if (found !== undefined) return found
      await make(by, { isFirst: true })
      const made = await readSigner()
      if (made === undefined) throw new StoreError('unreadable', 'the key that signs receipts cannot be read')
      return made
    },
  }
}

export type ReceiptKeyStore = ReturnType<typeof openReceiptKeys>

function* listKeys(keys: KeyRing): Steps<readonly StoredReceiptKey[]> {
  return (yield* all('receiptKeys')).filter((row) => privateKeyIn(keys, row) !== undefined).map(keyFromRow)
}

function* signerOf(keys: KeyRing): Steps<ReceiptSigner | undefined> {
  for (const row of yield* all('receiptKeys')) {
    const privateKey = privateKeyIn(keys, row)
    const { id, public_key, retiredAtMs } = keyFromRow(row)
    if (privateKey === undefined || retiredAtMs !== undefined) continue
    return { key: { id, public_key }, sign: (message) => sign(null, message, privateKey) }
  }
  return undefined
}

function* makeKey(
  group: CommitGroup,
  { by, atMs }: Attribution,
  { isFirst }: { readonly isFirst: boolean },
): Steps<ReceiptKey> {
  const { keys } = group
  for (const row of yield* all('receiptKeys')) {
    const current = keyFromRow(row)
    const sealed = privateBytesIn(keys, row)
    if (sealed === undefined || current.retiredAtMs !== undefined) continue
    // Another process made the first key in the meantime.
    if (isFirst) return { id: current.id, public_key: current.public_key }
    const retired = { ...current, retiredAtMs: atMs }
    yield* write('retireReceiptKey', atMs, keys.seal('receipts', sealed, contextOf(retired)), current.id)
  }
  const pair = generateKeyPairSync('ed25519')
  const { x: public_key = '' } = pair.publicKey.export({ format: 'jwk' })
  const id = hash('sha256', keyBytes(public_key), 'base64url').slice(0, KEY_ID_LENGTH)
  const key = { id, public_key, createdAtMs: atMs, retiredAtMs: undefined }
  const sealed = keys.seal(
    'receipts',
    pair.privateKey.export({ format: 'der', type: 'pkcs8' }),
    contextOf(key),
  )
  yield* write('insertReceiptKey', id, public_key, sealed, atMs)
  group.append({ type: 'receipt_key.made', at: atMs, receiptKey: id, by })
  return { id, public_key }
}

function privateKeyIn(keys: KeyRing, row: Row): KeyObject | undefined {
  const der = privateBytesIn(keys, row)
  return der === undefined ? undefined : createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
}

/** `undefined` for a row that was changed or written without the key of the store. */
function privateBytesIn(keys: KeyRing, row: Row): Buffer | undefined {
  try {
    return keys.open('receipts', bytes(row, 'private_key'), contextOf(keyFromRow(row)))
  } catch (error) {
    if (error instanceof StoreError) return undefined
    throw error
  }
}

function keyFromRow(row: Row): StoredReceiptKey {
  return {
    ...texts(row, 'id', 'public_key'),
    createdAtMs: integer(row, 'created_at'),
    retiredAtMs: optionalInteger(row, 'retired_at'),
  }
}

function contextOf({ id, public_key, createdAtMs, retiredAtMs }: StoredReceiptKey): string {
  return JSON.stringify(['receipt key', id, public_key, createdAtMs, retiredAtMs ?? null])
}

const resealing: readonly ResealableRows[] = [
  {
    ...{ what: 'keys for receipts', page: 'receiptKeysAfter', start: [''] },
    after: (row) => [text(row, 'id')],
    isDue: (row, keys) => keys.isDue('receipts', bytes(row, 'private_key'), contextOf(keyFromRow(row))),
    *reseal({ keys }, row) {
      const sealed = keys.reseal('receipts', bytes(row, 'private_key'), contextOf(keyFromRow(row)))
      yield* write('resealReceiptKey', sealed, text(row, 'id'))
    },
  },
]

const COLUMNS = 'id, public_key, private_key, created_at, retired_at'

const queries = {
  receiptKeys: `SELECT ${COLUMNS} FROM receipt_keys ORDER BY created_at DESC, id`,
  receiptKeysAfter: `SELECT ${COLUMNS} FROM receipt_keys WHERE id > ? ORDER BY id LIMIT ?`,
  insertReceiptKey: 'INSERT INTO receipt_keys (id, public_key, private_key, created_at) VALUES (?, ?, ?, ?)',
  retireReceiptKey: 'UPDATE receipt_keys SET retired_at = ?, private_key = ? WHERE id = ?',
  resealReceiptKey: 'UPDATE receipt_keys SET private_key = ? WHERE id = ?',
} as const

const tables = `
CREATE TABLE receipt_keys (
  id TEXT PRIMARY KEY,
  public_key TEXT NOT NULL,
  private_key BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  retired_at INTEGER
) STRICT;
`

export const receiptKeyModule: StoreModule = { name: 'keys for receipts', tables, queries, resealing }
