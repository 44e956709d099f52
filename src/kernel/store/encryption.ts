import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto'
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { StoreError } from '#kernel/base/errors'

/**
 * Encryption of stored data: sealing of groups and single values, tags (HMACs), and the key file. The chain, the key ring and
 * the row MACs build on it.
 * A nonce is never used twice with one key, and sealed bytes open only in the context they were sealed for (rule 14).
 */

const ALGORITHM = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** A key that seals groups, and the number of its generation. */
export interface GroupKey {
  readonly generation: number
  readonly key: KeyObject
}

/** Derived from one writer's data key and one generation: neither opens anything without the other. */
export function groupKeyOf(
  { no, groups }: { readonly no: number; readonly groups: Buffer },
  dataKey: Buffer,
): GroupKey {
  const key = hkdfSync('sha256', dataKey, groups, 'collet/group/v1', 32)
  return { generation: no, key: createSecretKey(Buffer.from(key)) }
}

/** The generation that a group was sealed under. */
export function groupGeneration(sealed: Uint8Array): number {
  return Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength).readUInt32BE(0)
}

/** Encrypts a writer's groups. The nonce is the generation and a counter, so that a key never sees one twice. */
export class Sealer {
  readonly #dataKey: Buffer
  #groupKey: GroupKey | undefined
  #counter = 0

  constructor(dataKey: Buffer) {
    this.#dataKey = dataKey
  }

  seal(plain: string, context: string, generation: { readonly no: number; readonly groups: Buffer }): Buffer {
    if (this.#groupKey?.generation !== generation.no) this.#groupKey = groupKeyOf(generation, this.#dataKey)
    const nonce = Buffer.alloc(NONCE_BYTES)
    nonce.writeUInt32BE(generation.no, 0)
    // Two halves: exact for every counter, and far cheaper than a BigInt.
    nonce.writeUInt32BE(Math.floor(this.#counter / 2 ** 32), NONCE_BYTES - 8)
    nonce.writeUInt32BE(this.#counter % 2 ** 32, NONCE_BYTES - 4)
    this.#counter += 1
    return encrypt({ key: this.#groupKey.key, nonce, plain, context })
  }
}

export function newDataKey(): Buffer {
  return randomBytes(32)
}

/** Uses a random nonce: for keys that seal few values. */
export function sealOnce(key: Buffer, plain: Buffer, context: string): Buffer {
  return encrypt({ key, nonce: randomBytes(NONCE_BYTES), plain, context })
}

/** Throws `unreadable` when bytes, key and context do not belong together (rule 14). */
export function unseal(key: Buffer | KeyObject, sealed: Uint8Array, context: string): Buffer {
  try {
    const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength)
    const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    })
    decipher.setAAD(Buffer.from(context))
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
  } catch (cause) {
    throw new StoreError(
      'unreadable',
      `stored data of ${context} cannot be decrypted: it was changed or the key is wrong`,
      {
        cause,
      },
    )
  }
}

function encrypt(sealing: {
  readonly key: Buffer | KeyObject
  readonly nonce: Buffer
  readonly plain: string | Buffer
  readonly context: string
}): Buffer {
  const cipher = createCipheriv(ALGORITHM, sealing.key, sealing.nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(Buffer.from(sealing.context))
  const { nonce, plain } = sealing
  // A string is passed as it is; a buffer of it would be one more copy.
  const sealed = typeof plain === 'string' ? cipher.update(plain, 'utf8') : cipher.update(plain)
  return Buffer.concat([nonce, sealed, cipher.final(), cipher.getAuthTag()])
}

/** An HMAC, prefixed with the generation of its key. */
export function tagOf(
  generation: number,
  key: KeyObject,
  ...parts: readonly (string | Uint8Array)[]
): string {
  const hmac = createHmac('sha256', key)
  for (const part of parts) hmac.update(part)
  return `${generation}.${hmac.digest('base64url')}`
}

/** The generation that made a tag; 0, which no generation has, for any other text. */
export function generationOfTag(tag: string): number {
  return Number(/^(\d{1,9})\./.exec(tag)?.[1] ?? 0)
}

const KEY_BYTES = 32

interface KeyFile {
  readonly masterKey: Uint8Array
  readonly oldMasterKey: Uint8Array | undefined
}

/**
 * Reads the key file, and creates it on first use: exclusively with mode 0600, so that two processes cannot make two keys (rule
 * 14). It is never created for a database in use, which is sealed with another key. The database is checked first, because the
 * process that fills it has created the key before.
 */
export function readOrCreateKeyFile(path: string, database: string): KeyFile {
  if (isFilled(database)) return readKeyFile(path)
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  createKeyFile(path)
  return readKeyFile(path)
}

/** While the key is being changed, the file has two lines: the new key and the previous one. */
export function readKeyFile(path: string): KeyFile {
  const stat = statSync(path, { throwIfNoEntry: false })
  if (stat === undefined) {
    throw new StoreError(
      'unreadable',
      `the key file ${path} is missing; restore it from a backup or set COLLET_KEY`,
    )
  }
  const mode = stat.mode & 0o777
  if ((mode & 0o077) !== 0) {
    throw new StoreError(
      'unreadable',
      `the key file ${path} can be read by others (mode ${mode.toString(8)}). Run: chmod 600 ${path}`,
    )
  }
  const lines = readFileSync(path, 'utf8').trim().split(/\s+/)
  const [masterKey, oldMasterKey, ...more] = lines.map((line) => Buffer.from(line, 'base64'))
  const isKey = (key: Buffer | undefined) => key === undefined || key.length === KEY_BYTES
  if (masterKey?.length === KEY_BYTES && isKey(oldMasterKey) && more.length === 0) {
    return { masterKey, oldMasterKey }
  }
  throw new StoreError(
    'unreadable',
    `the key file ${path} does not hold ${KEY_BYTES} bytes in base64. Restore it from a backup, or set COLLET_KEY.`,
  )
}

function isFilled(database: string): boolean {
  return (statSync(database, { throwIfNoEntry: false })?.size ?? 0) > 0
}

/** Written to a draft and linked into place: a reader sees the whole key or none, and the first key wins. */
function createKeyFile(path: string): void {
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  const file = openSync(draft, 'wx', 0o600)
  try {
    writeSync(file, `${randomBytes(KEY_BYTES).toString('base64')}\n`)
    fsyncSync(file)
    linkSync(draft, path)
    syncFolder(dirname(path))
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  } finally {
    closeSync(file)
    rmSync(draft, { force: true })
  }
}

/** The new name is durable only once its folder is synced. */
function syncFolder(path: string): void {
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
