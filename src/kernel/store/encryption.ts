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

const ALGORITHM = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** A key that groups are sealed under, and the number of the generation it belongs to. */
export interface GroupKey {
  readonly generation: number
  readonly key: KeyObject
}

/** Of one writer and one generation: neither a data key nor a generation opens anything without the other. */
export function groupKeyOf(
  { no, groups }: { readonly no: number; readonly groups: Buffer },
  dataKey: Buffer,
): GroupKey {
  const key = hkdfSync('sha256', dataKey, groups, 'collet/group/v1', 32)
  return { generation: no, key: createSecretKey(Buffer.from(key)) }
}

/** Which generation a group was sealed under. */
export function groupGeneration(sealed: Uint8Array): number {
  return Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength).readUInt32BE(0)
}

/** Encrypts a writer's groups. The nonce is the generation and a counter, so a key never sees one twice. */
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
    // In two halves: exact for more groups than there are numbers for, and far cheaper than a BigInt.
    nonce.writeUInt32BE(Math.floor(this.#counter / 2 ** 32), NONCE_BYTES - 8)
    nonce.writeUInt32BE(this.#counter % 2 ** 32, NONCE_BYTES - 4)
    this.#counter += 1
    return encrypt({ key: this.#groupKey.key, nonce, plain, context })
  }
}

export function newDataKey(): Buffer {
  return randomBytes(32)
}

/** Under a random nonce: for keys that seal few things. */
export function sealOnce(key: Buffer, plain: Buffer, context: string): Buffer {
  return encrypt({ key, nonce: randomBytes(NONCE_BYTES), plain, context })
}

/** Throws `unreadable` when the bytes, the key or the context do not fit together (rule 14). */
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
  // A text goes in as it is: as bytes of its own it would be copied once more.
  const sealed = typeof plain === 'string' ? cipher.update(plain, 'utf8') : cipher.update(plain)
  return Buffer.concat([nonce, sealed, cipher.final(), cipher.getAuthTag()])
}

/** A tag that says which generation made it. */
export function tagOf(
  generation: number,
  key: KeyObject,
  ...parts: readonly (string | Uint8Array)[]
): string {
  const hmac = createHmac('sha256', key)
  for (const part of parts) hmac.update(part)
  return `${generation}.${hmac.digest('base64url')}`
}

/** Which generation made a tag; 0, which no generation is, when none did. */
export function generationOfTag(tag: string): number {
  return Number(/^(\d{1,9})\./.exec(tag)?.[1] ?? 0)
}

const KEY_BYTES = 32

/** What the key file holds. */
interface KeyFile {
  readonly masterKey: Uint8Array
  readonly oldMasterKey: Uint8Array | undefined
}

/**
 * The key file's key, made on first use: created exclusively with mode 0600, so two processes cannot make two (rule 14).
 * Never for a database that is in use: it was sealed with another key, and a new one would take that one's place. The
 * database is looked at first, because the process that fills it has made the key before.
 */
export function readOrCreateKeyFile(path: string, database: string): KeyFile {
  if (isFilled(database)) return readKeyFile(path)
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  createKeyFile(path)
  return readKeyFile(path)
}

/** While the key is being changed the file has two lines: the new key, and the one before. */
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

/** Written aside and linked into place: a reader sees the whole key or none, and the first one made stays. */
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

/** A new name is on the disk only once its folder is. */
function syncFolder(path: string): void {
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
