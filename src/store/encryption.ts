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
import { StoreError } from '#core/errors'

/** Keys derived from `COLLET_KEY`, one per purpose, so that no two uses can be played against each other. */
export interface StoreKeys {
  /** Wraps each writer's random data key (rule 14). */
  readonly wrap: Buffer
  /** Wraps the data key of each tenant's vault. */
  readonly vault: Buffer
  /** Seals the options of stored sources. */
  readonly sources: Buffer
  /** Seals what was answered to requests with keys. */
  readonly requests: Buffer
  /** Seals what approvers gave as their reasons. */
  readonly reasons: Buffer
  /** Links the journal (rule 15). */
  readonly chain: KeyObject
  /** Prefix of keyed digests. */
  readonly digest: string
  /** Signs links and binds grants (rules 21 and 23). */
  readonly approvals: KeyObject
  /** Authenticates rows that decide. */
  readonly rows: KeyObject
  /** Kept in the store: a process with another key refuses to start. */
  readonly check: string
}

export function deriveStoreKeys(masterKey: Uint8Array): StoreKeys {
  return {
    wrap: derive(masterKey, 'collet/wrap/v1'),
    vault: derive(masterKey, 'collet/vault-wrap/v1'),
    sources: derive(masterKey, 'collet/sources/v1'),
    requests: derive(masterKey, 'collet/requests/v1'),
    reasons: derive(masterKey, 'collet/approval-reasons/v1'),
    chain: createSecretKey(derive(masterKey, 'collet/journal-chain/v1')),
    digest: derive(masterKey, 'collet/digest/v1').toString('base64url'),
    approvals: createSecretKey(derive(masterKey, 'collet/approvals/v1')),
    rows: createSecretKey(derive(masterKey, 'collet/rows/v1')),
    check: checkOf(masterKey, 'collet/key-check/v2'),
  }
}

function checkOf(masterKey: Uint8Array, purpose: string): string {
  return createHmac('sha256', derive(masterKey, purpose)).update('collet').digest('base64url')
}

function derive(masterKey: Uint8Array, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, '', purpose, 32))
}

const ALGORITHM = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Encrypts under one writer's data key. The nonce is a counter, so a key never sees one twice. */
export class Sealer {
  readonly #key: KeyObject
  #counter = 0n

  constructor(key: Buffer) {
    this.#key = createSecretKey(key)
  }

  seal(plain: string, context: string): Buffer {
    const nonce = Buffer.alloc(NONCE_BYTES)
    nonce.writeBigUInt64BE(this.#counter, NONCE_BYTES - 8)
    this.#counter += 1n
    return encrypt({ key: this.#key, nonce, plain, context })
  }
}

export function newDataKey(): Buffer {
  return randomBytes(32)
}

/** The data key as the store keeps it. The wrapping nonce is random: one key wraps few keys. */
export function wrapDataKey(wrapKey: Buffer, dataKey: Buffer, writer: string): Buffer {
  return encrypt({
    key: wrapKey,
    nonce: randomBytes(NONCE_BYTES),
    plain: dataKey,
    context: `writer ${writer}`,
  })
}

export function unwrapDataKey(wrapKey: Buffer, wrapped: Uint8Array, writer: string): Buffer {
  return unseal(wrapKey, wrapped, `writer ${writer}`)
}

/** Under a random nonce: for keys that seal few things. */
export function sealOnce(key: Buffer, plain: Buffer, context: string): Buffer {
  return encrypt({ key, nonce: randomBytes(NONCE_BYTES), plain, context })
}

/** Throws `unreadable` when the bytes, the key or the context do not fit together (rule 14). */
export function unseal(key: Buffer, sealed: Uint8Array, context: string): Buffer {
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

/** Marks what is sealed: an event may also give a reason in our own words, such as a timeout. */
const SEALED = 'sealed:'
const UNREADABLE = '[unreadable]'

/**
 * Reasons of approvers speak about people and customers, so they are sealed wherever they are stored: beside the
 * decision, in the events of a run and in the journal. Each is a text of its own and goes with what holds it.
 */
export function sealReason(key: Buffer, approval: string, reason: string): string {
  return SEALED + sealOnce(key, Buffer.from(reason), reasonContext(approval)).toString('base64url')
}

/** One that was changed is shown as such: it must not keep anybody from reading the others. */
export function openReason(key: Buffer, approval: string, stored: string): string {
  if (!stored.startsWith(SEALED)) return stored
  try {
    const sealed = Buffer.from(stored.slice(SEALED.length), 'base64url')
    return unseal(key, sealed, reasonContext(approval)).toString('utf8')
  } catch {
    return UNREADABLE
  }
}

/** An event or a fact about an approval as its readers see it; most have no reason, and some one of our own words. */
export function openReasonIn<T extends object>(key: Buffer, event: T): T {
  if (!('approval' in event && 'reason' in event)) return event
  const { approval, reason } = event
  if (typeof approval !== 'string' || typeof reason !== 'string') return event
  return { ...event, reason: openReason(key, approval, reason) }
}

function reasonContext(approval: string): string {
  return JSON.stringify(['approval reason', approval])
}

const KEY_BYTES = 32

/**
 * The key file's key, made on first use: created exclusively with mode 0600, so two processes cannot make two (rule 14).
 * Never for a database that is in use: it was sealed with another key, and a new one would take that one's place. The
 * database is looked at first, because the process that fills it has made the key before.
 */
export function readOrCreateKeyFile(path: string, database: string): Uint8Array {
  if (isFilled(database)) return readKeyFile(path)
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  createKeyFile(path)
  return readKeyFile(path)
}

export function readKeyFile(path: string): Uint8Array {
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
  const key = Buffer.from(readFileSync(path, 'utf8').trim(), 'base64')
  if (key.length === KEY_BYTES) return key
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
