import { createHmac, createSecretKey, hash, hkdfSync, type KeyObject, randomBytes } from 'node:crypto'
import { StoreError } from '#kernel/base/errors'
import { sealOnce, unseal } from './encryption.ts'
import { all, type CommitGroup, get, type Row, type SqlValue, type Steps, write } from './engine.ts'
import { bytes, integer, text, word } from './rows.ts'

/**
 * The keys of one store: the generations that seal, sign and authenticate its data, and their rotation. Every store module seals
 * through the ring. `COLLET_KEY` seals only random secrets that the store holds: one that never changes, and the root of each
 * generation. Everything sealed or signed names its generation, so that several can be in use while the key is changed.
 */

/** `COLLET_KEY` and `COLLET_KEY_OLD`. The old key is present while the key is being changed, and only opens. */
interface MasterKeys {
  readonly current: Uint8Array
  readonly old?: Uint8Array | undefined
}

/** Rows that are sealed or signed under a generation: a rotation gives each of them the next one, page by page. */
export interface Resealing {
  /** Label for operators. */
  readonly what: string
  /** Name of a statement that takes the end of the previous page and the number of rows. */
  readonly page: string
  readonly start: readonly SqlValue[]
  after(row: Row): readonly SqlValue[]
  /** Whether it is under an earlier generation. Foreign or damaged rows are left as they are. */
  isDue(row: Row, keys: KeyRing): boolean
  reseal(group: CommitGroup, row: Row, atMs: number): Steps<void>
}

/** Purposes of keys within a generation. One key per purpose, so that sealed data of one cannot be used as another. */
const PURPOSES = ['data keys', 'vault keys', 'sources', 'pins', 'requests', 'reasons', 'closings'] as const
type Purpose = (typeof PURPOSES)[number]

/** `announced`: every process can read it, but none writes it yet. `past`: it opens what cannot be sealed again. */
const STATES = ['announced', 'current', 'past'] as const
type GenerationState = (typeof STATES)[number]

/** The keys derived from one random root. A rotation makes the next generation and reseals what can be resealed. */
export interface Generation {
  readonly no: number
  readonly state: GenerationState
  /** Guarded rows must have the MAC of this generation or a later one. */
  readonly floor: number
  readonly root: Buffer
  /** Derives the sealing key of a writer's groups, together with its data key. */
  readonly groups: Buffer
  /** Links the journal (rule 15). */
  readonly chain: KeyObject
  /** Authenticates guarded rows. */
  readonly rows: KeyObject
  /** Signs links and values that callers send back. */
  readonly links: KeyObject
  readonly seals: Readonly<Record<Purpose, Buffer>>
}

/** Unchanged by rotation, because records are found by it: digests of keys, and bindings of grants (rule 21). */
interface Identity {
  readonly secret: Buffer
  readonly digest: string
  readonly bindings: KeyObject
}

/** Purposes whose signatures stay valid after the key is changed: bindings of grants (rule 21), keys sent upstream (rule 27). */
const LASTING: ReadonlySet<string> = new Set(['grant', 'credential', 'effect'])

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

  /** A ring with its first generation, not stored yet. */
  static fresh(masters: MasterKeys): KeyRing {
    const ring = new KeyRing(masters)
    ring.#identity = identityOf(randomBytes(ROOT_BYTES))
    ring.#take([generationOf({ no: 1, state: 'current', floor: 1, root: randomBytes(ROOT_BYTES) })])
    return ring
  }

  /** The generation that new data is sealed and signed under. */
  get current(): Generation {
    return this.#current ?? unloaded()
  }

  get newest(): Generation {
    return this.of(Math.max(...this.#generations.keys()))
  }

  /** Keyed one-way digest. A secret prefix keys it: one-shot hashing is far cheaper than an HMAC object per call. */
  digest(plain: string): string {
    const { digest: prefix } = this.#identity ?? unloaded()
    return hash('sha256', prefix + plain, 'base64url').slice(0, DIGEST_CHARACTERS)
  }

  /** HMAC under a key of this store, different for each purpose. */
  sign(purpose: string, signed: string): string {
    const { bindings } = this.#identity ?? unloaded()
    return createHmac('sha256', LASTING.has(purpose) ? bindings : this.current.links)
      .update(JSON.stringify([purpose, signed]))
      .digest('base64url')
  }

  /** Whether the store still needs `COLLET_KEY_OLD`. */
  get isUnderOldKey(): boolean {
    return this.#isUnderOld
  }

  get hasOldKey(): boolean {
    return this.#masters.old !== undefined
  }

  /** Names of this process's master keys, which do not reveal them; the current one first. */
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

  /** Uses a random nonce: each of these keys seals few values. */
  seal(purpose: Purpose, plain: Buffer, context: string): Buffer {
    const { no, seals } = this.current
    const number = Buffer.alloc(NUMBER_BYTES)
    number.writeUInt32BE(no)
    return Buffer.concat([number, sealOnce(seals[purpose], plain, context)])
  }

  /** Throws `unreadable` when bytes, keys and context do not belong together (rule 14). */
  open(purpose: Purpose, sealed: Uint8Array, context: string): Buffer {
    const { seals } = this.of(generationIn(sealed))
    return unseal(seals[purpose], sealed.subarray(NUMBER_BYTES), context)
  }

  /** For columns and event members that are texts. */
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

  /** Whether it is under an earlier generation, and intact. */
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
    const fresh = KeyRing.fresh(this.#masters)
    this.#identity = fresh.#identity
    this.#take([fresh.current])
    const { current, secret } = { current: fresh.current, secret: (this.#identity ?? unloaded()).secret }
    yield* write('writeMeta', IDENTITY, this.#wrap(secret, IDENTITY).toString('base64url'))
    yield* write('insertGeneration', current.no, current.state, current.floor, this.#wrapped(current), atMs)
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

  /** Puts everything under the current master key; the old one alone no longer opens the store. */
  *rewrap(): Steps<void> {
    const { secret } = this.#identity ?? unloaded()
    yield* write('writeMeta', IDENTITY, this.#wrap(secret, IDENTITY).toString('base64url'))
    for (const generation of this.#generations.values()) yield* this.change(generation)
  }

  *announce(atMs: number): Steps<void> {
    const { no, floor } = this.newest
    const next = generationOf({ no: no + 1, state: 'announced', floor, root: randomBytes(ROOT_BYTES) })
    yield* write('insertGeneration', next.no, next.state, next.floor, this.#wrapped(next), atMs)
  }

  /** State and floor are sealed with the root: they cannot be set back without the key. */
  *change(generation: Pick<Generation, 'no' | 'state' | 'floor' | 'root'>): Steps<void> {
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
    if (current === undefined || current.no < (this.#current?.no ?? 0) || current.floor < this.#floor) {
      throw new StoreError('unreadable', 'the keys of this store were set back to earlier ones')
    }
    this.#current = current
    this.#generations = new Map(generations.map((generation) => [generation.no, generation]))
  }

  get #floor(): number {
    return this.#current?.floor ?? 0
  }

  #wrapped(generation: Pick<Generation, 'no' | 'state' | 'floor' | 'root'>): Buffer {
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
      // Neither fits; reported below.
    }
    throw new StoreError(
      'unreadable',
      'the key does not fit this database. Set COLLET_KEY (or restore the key file) to the key it was created with, or changed to',
    )
  }
}

/** Marks sealed texts: the reason of an event may also be a plain word of the server, such as a timeout. */
const SEALED = 'sealed:'
const UNREADABLE = '[unreadable]'

/**
 * Reasons of approvers mention people and customers, so they are sealed wherever they are stored: with the decision, in the
 * events of a run and in the journal. Each is sealed on its own and deleted with what holds it.
 */
export function sealReason(keys: KeyRing, approval: string, reason: string): string {
  return keys.sealText('reasons', reason, reasonContext(approval))
}

/** A reason that cannot be read is left as it is. */
export function resealReason(keys: KeyRing, approval: string, stored: string): string {
  const reason = openReason(keys, approval, stored)
  return stored.startsWith(SEALED) && reason !== UNREADABLE ? sealReason(keys, approval, reason) : stored
}

/** A tampered reason is shown as unreadable, so that the others can still be read. */
export function openReason(keys: KeyRing, approval: string, stored: string): string {
  if (!stored.startsWith(SEALED)) return stored
  try {
    return keys.openText('reasons', stored, reasonContext(approval))
  } catch {
    return UNREADABLE
  }
}

/** An event or a fact about an approval with its reason opened; most have none. */
export function openReasonIn<T extends object>(keys: KeyRing, event: T): T {
  if (!('approval' in event && 'reason' in event)) return event
  const { approval, reason } = event
  if (typeof approval !== 'string' || typeof reason !== 'string') return event
  return { ...event, reason: openReason(keys, approval, reason) }
}

function reasonContext(approval: string): string {
  return JSON.stringify(['approval reason', approval])
}

function generationIn(sealed: Uint8Array): number {
  const { buffer, byteOffset, byteLength } = sealed
  return byteLength < NUMBER_BYTES ? 0 : new DataView(buffer, byteOffset, byteLength).getUint32(0)
}

function generationOf({ no, state, floor, root }: Pick<Generation, 'no' | 'state' | 'floor' | 'root'>) {
  const seal = (purpose: Purpose) => derive(root, `collet/seal/${purpose}/v1`)
  return {
    ...{ no, state, floor, root },
    groups: derive(root, 'collet/groups/v1'),
    chain: createSecretKey(derive(root, 'collet/journal-chain/v1')),
    rows: createSecretKey(derive(root, 'collet/rows/v1')),
    links: createSecretKey(derive(root, 'collet/links/v1')),
    seals: {
      'data keys': seal('data keys'),
      'vault keys': seal('vault keys'),
      sources: seal('sources'),
      pins: seal('pins'),
      requests: seal('requests'),
      reasons: seal('reasons'),
      closings: seal('closings'),
    },
  } satisfies Generation
}

function identityOf(secret: Buffer): Identity {
  return {
    secret,
    digest: derive(secret, 'collet/digest/v1').toString('base64url'),
    bindings: createSecretKey(derive(secret, 'collet/bindings/v1')),
  }
}

function contextOf({ no, state, floor }: Pick<Generation, 'no' | 'state' | 'floor'>): string {
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
  throw new StoreError('unreadable', 'the keys of the store are not read yet')
}

export const queries = {
  keyGenerations:
    'SELECT generation AS no, state, floor, wrapped, closing FROM key_generations ORDER BY generation',
  insertGeneration:
    'INSERT INTO key_generations (generation, state, floor, wrapped, created_at) VALUES (?, ?, ?, ?, ?)',
  changeGeneration: 'UPDATE key_generations SET state = ?, floor = ?, wrapped = ? WHERE generation = ?',
} as const

/** `closing` holds the ends of the journal's chains under a past generation, sealed under a later one. */
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
