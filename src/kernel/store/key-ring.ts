import {
  type CipherGCM,
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hash,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto'
import { StoreError } from '#kernel/base/errors'
import { all, type CommitGroup, get, type Row, type SqlValue, type Steps, write } from './engine.ts'
import { bytes, integer, SEALED, text, word } from './rows.ts'

/**
 * The keys of one store: generations of keys and their rotation, sealing of groups and single values, and tags (HMACs). Every
 * store module seals through the ring. `COLLET_KEY` seals only random secrets that are in the store: one that never changes, and the root
 * of each generation. All sealed or signed data names its generation, so that several generations can be in use while the key is
 * changed. A nonce is never used twice with the same key, and sealed bytes can be opened only in the context they were sealed
 * for (rule 14).
 */

/** `COLLET_KEY` and `COLLET_KEY_OLD`. The old key is present while the key is being changed, and only opens. */
interface MasterKeys {
  readonly current: Uint8Array
  readonly old?: Uint8Array | undefined
}

/** Rows that are sealed or signed under a generation: a rotation moves them to the next generation, page by page. */
export interface ResealableRows {
  /** Label for operators. */
  readonly what: string
  /** Name of a statement that takes the end of the previous page and the number of rows. */
  readonly page: string
  readonly start: readonly SqlValue[]
  after(row: Row): readonly SqlValue[]
  /** Whether the row is sealed under an earlier generation. False for foreign or damaged rows, which stay unchanged. */
  isDue(row: Row, keys: KeyRing): boolean
  reseal(group: CommitGroup, row: Row, atMs: number): Steps<void>
}

/** Purposes of keys within a generation. Each purpose has its own key, so that sealed data cannot be used for another purpose. */
const PURPOSES = [
  ...['data keys', 'vault keys', 'sources', 'pins', 'requests', 'reasons', 'receipts', 'closings'],
] as const
type Purpose = (typeof PURPOSES)[number]

/** `announced`: processes can open data under it but do not seal with it yet. `past`: only opens data that cannot be resealed. */
const STATES = ['announced', 'current', 'past'] as const

interface StoredGeneration {
  readonly no: number
  readonly state: (typeof STATES)[number]
  /** Guarded rows must have the MAC of this generation or a later one. */
  readonly floor: number
  readonly root: Buffer
}

/** The keys derived from one random root. A rotation makes the next generation and reseals all data that can be resealed. */
export interface Generation extends StoredGeneration {
  /** The sealing key for a writer's groups is derived from this key and the writer's data key. */
  readonly groups: Buffer
  /** Signs the links of the journal's chains (rule 15). */
  readonly chain: MacKey
  /** Authenticates guarded rows. */
  readonly rows: MacKey
  /** Signs links and values that callers send back. */
  readonly links: MacKey
  readonly seals: ReadonlyMap<Purpose, Buffer>
}

/** Secrets that a rotation does not change, because records are found by their digests and grants are checked against them (rule 21). */
interface Identity {
  readonly secret: Buffer
  readonly digest: string
  readonly bindings: MacKey
}

/** Purposes whose signatures stay valid after the key is changed: bindings (rules 21 and 27), and salts of the journal's blocks. */
const PERMANENT_PURPOSES: ReadonlySet<string> = new Set(['grant', 'credential', 'effect', 'receipt'])

const IDENTITY = 'identity'
const ROOT_BYTES = 32
const DIGEST_CHARACTERS = 24
const NUMBER_BYTES = 4

export class KeyRing {
  readonly #masters: MasterKeys
  #identity: Identity | undefined
  #generations = new Map<number, Generation>()
  #current: Generation | undefined
  #isUnderOld = false

  constructor(masters: MasterKeys) {
    this.#masters = masters
  }

  /** A new ring with its first generation, which is not stored yet. */
  static fresh(masters: MasterKeys): KeyRing {
    const ring = new KeyRing(masters)
    ring.#begin()
    return ring
  }

  #begin(): void {
    this.#identity = identityOf(randomBytes(ROOT_BYTES))
    this.#take([generationOf({ no: 1, state: 'current', floor: 1, root: randomBytes(ROOT_BYTES) })])
  }

  /** The generation that new data is sealed and signed under. */
  get current(): Generation {
    return this.#current ?? unloaded()
  }

  get newest(): Generation {
    return this.of(Math.max(...this.#generations.keys()))
  }

  /** One-way digest, keyed by a secret prefix: a one-shot hash is far cheaper than an HMAC object per call. */
  digest(plain: string): string {
    const { digest: prefix } = this.#identity ?? unloaded()
    return hash('sha256', prefix + plain, 'base64url').slice(0, DIGEST_CHARACTERS)
  }

  /** HMAC under a key of this store, different for each purpose. */
  sign(purpose: string, signed: string): string {
    const { bindings } = this.#identity ?? unloaded()
    const key = PERMANENT_PURPOSES.has(purpose) ? bindings : this.current.links
    return key.sign(JSON.stringify([purpose, signed]))
  }

  /** Whether the store still needs `COLLET_KEY_OLD`. */
  get isUnderOldKey(): boolean {
    return this.#isUnderOld
  }

  get hasOldKey(): boolean {
    return this.#masters.old !== undefined
  }

  /** Names of this process's master keys, the current key first. A name does not reveal its key. */
  get holds(): readonly string[] {
    const { current, old } = this.#masters
    return [current, ...(old === undefined ? [] : [old])].map(nameOfKey)
  }

  find(no: number): Generation | undefined {
    return this.#generations.get(no)
  }

  of(no: number): Generation {
    const found = this.#generations.get(no)
    if (found !== undefined) return found
    throw new StoreError(
      'unreadable',
      `stored data cannot be decrypted: it was changed, or is under keys that this store does not have (${no})`,
    )
  }

  /** Seals with a random nonce, which is safe because each of these keys seals few values. */
  seal(purpose: Purpose, plain: Buffer, context: string): Buffer {
    const { no, seals } = this.current
    const number = Buffer.alloc(NUMBER_BYTES)
    number.writeUInt32BE(no)
    return Buffer.concat([number, sealOnce(seals.get(purpose) ?? unloaded(), plain, context)])
  }

  /** Throws `unreadable` if the bytes, keys and context do not belong together (rule 14). */
  open(purpose: Purpose, sealed: Uint8Array, context: string): Buffer {
    const { seals } = this.of(generationIn(sealed))
    return unseal(seals.get(purpose) ?? unloaded(), sealed.subarray(NUMBER_BYTES), context)
  }

  /** Seals a text for a text column or an event member. */
  sealText(purpose: Purpose, plain: string, context: string): string {
    return SEALED + this.seal(purpose, Buffer.from(plain), context).toString('base64url')
  }

  openText(purpose: Purpose, sealed: string, context: string): string {
    const bytes = Buffer.from(sealed.slice(SEALED.length), 'base64url')
    return this.open(purpose, bytes, context).toString('utf8')
  }

  isCurrent(sealed: Uint8Array): boolean {
    return generationIn(sealed) === this.current.no
  }

  /** Whether the value is intact and sealed under an earlier generation. */
  isDue(purpose: Purpose, sealed: Uint8Array, context: string): boolean {
    if (this.isCurrent(sealed)) return false
    try {
      this.open(purpose, sealed, context)
      return true
    } catch {
      return false
    }
  }

  /** Seals the value again under the current generation. */
  reseal(purpose: Purpose, sealed: Uint8Array, context: string): Buffer {
    return this.seal(purpose, this.open(purpose, sealed, context), context)
  }

  /** Runs in the transaction that creates the tables. */
  *create(atMs: number): Steps<void> {
    this.#begin()
    yield* this.#writeIdentity()
    yield* this.#insert(this.current, atMs)
  }

  /** Loads the stored generations; refuses a key that is not the store's own (rule 14). */
  *load(): Steps<void> {
    const identity = yield* get('readMeta', IDENTITY)
    const rows = yield* all('keyGenerations')
    this.#isUnderOld = false
    this.#identity ??= identityOf(
      this.#unwrap(Buffer.from(identity === undefined ? '' : text(identity, 'value'), 'base64url'), IDENTITY),
    )
    this.#take(rows.map((row) => this.#generationFrom(row)))
  }

  /** Wraps all secrets with the current master key; afterwards the old key no longer opens the store. */
  *rewrap(): Steps<void> {
    yield* this.#writeIdentity()
    for (const generation of this.#generations.values()) yield* this.change(generation)
  }

  *announce(atMs: number): Steps<void> {
    const { no, floor } = this.newest
    yield* this.#insert({ no: no + 1, state: 'announced', floor, root: randomBytes(ROOT_BYTES) }, atMs)
  }

  *#insert(generation: StoredGeneration, atMs: number): Steps<void> {
    const { no, state, floor } = generation
    yield* write('insertGeneration', no, state, floor, this.#wrapped(generation), atMs)
  }

  *#writeIdentity(): Steps<void> {
    const { secret } = this.#identity ?? unloaded()
    yield* write('writeMeta', IDENTITY, this.#wrap(secret, IDENTITY).toString('base64url'))
  }

  /** State and floor are sealed together with the root, so that they cannot be set back without the key. */
  *change(generation: StoredGeneration): Steps<void> {
    const { no, state, floor } = generation
    yield* write('changeGeneration', state, floor, this.#wrapped(generation), no)
  }

  #generationFrom(row: Row): Generation {
    const facts = { no: integer(row, 'no'), state: word(row, 'state', STATES), floor: integer(row, 'floor') }
    const known = this.#generations.get(facts.no)
    const root = this.#unwrap(bytes(row, 'wrapped'), contextOf(facts))
    if (known?.state === facts.state && known.floor === facts.floor) return known
    return generationOf({ ...facts, root })
  }

  #take(generations: readonly Generation[]): void {
    const current = generations.findLast(({ state }) => state === 'current')
    const { no = 0, floor = 0 } = this.#current ?? {}
    if (current === undefined || current.no < no || current.floor < floor) {
      throw new StoreError('unreadable', 'the keys of this store were set back to earlier ones')
    }
    this.#current = current
    this.#generations = new Map(generations.map((generation) => [generation.no, generation]))
  }

  #wrapped(generation: StoredGeneration): Buffer {
    return this.#wrap(generation.root, contextOf(generation))
  }

  #wrap(secret: Buffer, context: string): Buffer {
    return sealOnce(masterSeal(this.#masters.current), secret, context)
  }

  #unwrap(wrapped: Uint8Array, context: string): Buffer {
    const { current, old } = this.#masters
    try {
      return unseal(masterSeal(current), wrapped, context)
    } catch {
      this.#isUnderOld = old !== undefined
    }
    try {
      if (old !== undefined) return unseal(masterSeal(old), wrapped, context)
    } catch {
      // Neither key is right, which is reported below.
    }
    throw new StoreError(
      'unreadable',
      'the key does not fit this database. Set COLLET_KEY, or restore the key file, to the key that the database currently uses',
    )
  }
}

/** The number of the generation that sealed these bytes; 0, which no generation has, if they are too short. */
export function generationIn(sealed: Uint8Array): number {
  const { buffer, byteOffset, byteLength } = sealed
  return byteLength < NUMBER_BYTES ? 0 : new DataView(buffer, byteOffset, byteLength).getUint32(0)
}

function generationOf({ no, state, floor, root }: StoredGeneration) {
  return {
    no,
    state,
    floor,
    root,
    groups: derive(root, 'collet/groups/v1'),
    chain: new MacKey(derive(root, 'collet/journal-chain/v1')),
    rows: new MacKey(derive(root, 'collet/rows/v1')),
    links: new MacKey(derive(root, 'collet/links/v1')),
    seals: new Map(PURPOSES.map((purpose) => [purpose, derive(root, `collet/seal/${purpose}/v1`)])),
  } satisfies Generation
}

function identityOf(secret: Buffer): Identity {
  return {
    secret,
    digest: derive(secret, 'collet/digest/v1').toString('base64url'),
    bindings: new MacKey(derive(secret, 'collet/bindings/v1')),
  }
}

function contextOf({ no, state, floor }: Omit<StoredGeneration, 'root'>): string {
  return JSON.stringify(['generation', no, state, floor])
}

function masterSeal(masterKey: Uint8Array): Buffer {
  return derive(masterKey, 'collet/generations/v1')
}

function nameOfKey(masterKey: Uint8Array): string {
  return derive(masterKey, 'collet/key-name/v1').subarray(0, 9).toString('base64url')
}

function derive(secret: Uint8Array, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', purpose, 32))
}

function unloaded(): never {
  throw new StoreError('unreadable', 'the keys of the store have not been loaded yet')
}

const ALGORITHM = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** A key that seals groups, and the number of its generation. */
export interface GroupKey {
  readonly generation: number
  readonly key: KeyObject
}

/** Derived from one writer's data key and one generation: neither of them alone can open the groups. */
export function groupKeyOf({ no, groups }: Pick<Generation, 'no' | 'groups'>, dataKey: Buffer): GroupKey {
  const key = hkdfSync('sha256', dataKey, groups, 'collet/group/v1', 32)
  return { generation: no, key: createSecretKey(Buffer.from(key)) }
}

/** Encrypts a writer's groups. The nonce is the generation and a counter, so that no nonce is used twice with a key. */
export class Sealer {
  readonly #dataKey: Buffer
  #groupKey: GroupKey | undefined
  #counter = 0
  readonly #prepared = new Map<string, PreparedCipher>()

  constructor(dataKey: Buffer) {
    this.#dataKey = dataKey
  }

  seal(plain: string, context: string, generation: Pick<Generation, 'no' | 'groups'>): Buffer {
    const prepared = this.#prepared.get(context)
    this.#prepared.delete(context)
    const isUsable = prepared?.generation === generation.no
    return encrypt(isUsable ? prepared : this.#next(generation, context), plain)
  }

  /** Makes the ciphers of the next group while no caller waits for them: making one takes longer than using it. */
  prepare(contexts: readonly string[], generation: Pick<Generation, 'no' | 'groups'>): void {
    if (contexts.every((context) => this.#prepared.get(context)?.generation === generation.no)) return
    this.#prepared.clear()
    for (const context of contexts) this.#prepared.set(context, this.#next(generation, context))
  }

  #next(generation: Pick<Generation, 'no' | 'groups'>, context: string): PreparedCipher {
    if (this.#groupKey?.generation !== generation.no) this.#groupKey = groupKeyOf(generation, this.#dataKey)
    const nonce = Buffer.alloc(NONCE_BYTES)
    nonce.writeUInt32BE(generation.no, 0)
    // The counter is written in two halves: exact for every value, and far cheaper than a BigInt.
    nonce.writeUInt32BE(Math.floor(this.#counter / 2 ** 32), NONCE_BYTES - 8)
    nonce.writeUInt32BE(this.#counter % 2 ** 32, NONCE_BYTES - 4)
    this.#counter += 1
    return { ...cipherOf(this.#groupKey.key, nonce, context), generation: generation.no }
  }
}

export function newDataKey(): Buffer {
  return randomBytes(32)
}

/** Seals with a random nonce; only for keys that seal few values. */
export function sealOnce(key: Buffer, plain: Buffer, context: string): Buffer {
  return encrypt(cipherOf(key, randomBytes(NONCE_BYTES), context), plain)
}

/** Throws `unreadable` if the bytes, key and context do not belong together (rule 14). */
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
    const message = `stored data of ${context} cannot be decrypted: it was changed or the key is wrong`
    throw new StoreError('unreadable', message, { cause })
  }
}

/** A cipher that has not been used yet, and its nonce, which no other cipher has. */
interface UnusedCipher {
  readonly nonce: Buffer
  readonly cipher: CipherGCM
}

interface PreparedCipher extends UnusedCipher {
  readonly generation: number
}

function cipherOf(key: Buffer | KeyObject, nonce: Buffer, context: string): UnusedCipher {
  const cipher = createCipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(Buffer.from(context))
  return { nonce, cipher }
}

function encrypt({ nonce, cipher }: UnusedCipher, plain: string | Buffer): Buffer {
  // A string is passed directly, because converting it to a buffer would make another copy.
  const sealed = typeof plain === 'string' ? cipher.update(plain, 'utf8') : cipher.update(plain)
  return Buffer.concat([nonce, sealed, cipher.final(), cipher.getAuthTag()])
}

const BLOCK_BYTES = 64
const SHA256_BYTES = 32

/** HMAC-SHA256 (RFC 2104) from two one-shot hashes, which cost less than an HMAC object per commit. */
export class MacKey {
  readonly #inner: Buffer
  /** The outer block, followed by room for the inner hash. */
  readonly #outer: Buffer

  constructor(key: Buffer) {
    if (key.length > BLOCK_BYTES) throw new RangeError(`a MAC key has at most ${BLOCK_BYTES} bytes`)
    const block = Buffer.alloc(BLOCK_BYTES)
    key.copy(block)
    this.#inner = Buffer.from(block.map((byte) => byte ^ 0x36))
    this.#outer = Buffer.concat([block.map((byte) => byte ^ 0x5c)], BLOCK_BYTES + SHA256_BYTES)
  }

  /** The MAC of the parts, one after the other, in base64url. */
  sign(...parts: readonly (string | Uint8Array)[]): string {
    const bytes = parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part))
    hash('sha256', Buffer.concat([this.#inner, ...bytes]), 'buffer').copy(this.#outer, BLOCK_BYTES)
    return hash('sha256', this.#outer, 'base64url')
  }
}

/** An HMAC, prefixed with the generation of its key. */
export function tagOf(generation: number, key: MacKey, ...parts: readonly (string | Uint8Array)[]): string {
  return `${generation}.${key.sign(...parts)}`
}

/** The number of the generation that made a tag; 0, which no generation has, for any other text. */
export function generationOfTag(tag: string): number {
  return Number(/^(\d{1,9})\./.exec(tag)?.[1] ?? 0)
}

export const queries = {
  keyGenerations:
    'SELECT generation AS no, state, floor, wrapped, closing FROM key_generations ORDER BY generation',
  insertGeneration:
    'INSERT INTO key_generations (generation, state, floor, wrapped, created_at) VALUES (?, ?, ?, ?, ?)',
  changeGeneration: 'UPDATE key_generations SET state = ?, floor = ?, wrapped = ? WHERE generation = ?',
} as const

/** `closing` contains the ends of the journal's chains under a past generation, sealed under a later generation. */
export const tables = `
CREATE TABLE key_generations (
  generation INTEGER PRIMARY KEY,
  state TEXT NOT NULL,
  floor INTEGER NOT NULL,
  wrapped BLOB NOT NULL,
  closing BLOB,
  created_at INTEGER NOT NULL
) STRICT;
`
