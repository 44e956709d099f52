import { randomUUID } from 'node:crypto'
import { StoreError } from '#core/errors'
import type { JournalHead } from '#core/journal/events'
import type { MaybePromise } from '#core/runtime'
import { generationOfTag, newDataKey, Sealer, tagOf } from './encryption.ts'
import {
  all,
  answered,
  CommitGroup,
  type Engine,
  get,
  type Notify,
  type PendingChange,
  type Row,
  type Steps,
  write,
} from './engine.ts'
import type { Generation, KeyRing, Resealing } from './key-ring.ts'
import { bytes, integer, text } from './rows.ts'

const BUSY_RETRY_MS = 2
const LONGEST_BUSY_MS = 10_000
const LARGEST_GROUP = 512

/** A change and who waits for it. */
interface Submitted extends PendingChange {
  /** Hands out what its steps gave. */
  resolve(): void
  reject(error: unknown): void
}

/**
 * Rule 19: everything that arrives in one turn of the event loop, or while a commit is under way, is committed together,
 * so that one fsync pays for all of it. Nobody hears of a change before its commit.
 */
export class CommitQueue {
  readonly #engine: Pick<Engine, 'commit'>
  /** None where a commit runs beside the event loop: whoever comes meanwhile is company enough. */
  #patience: Patience | undefined = new Patience()
  #waiting: Submitted[] = []
  #scheduled = false
  #busySinceMs: number | undefined
  #isClosed = false

  constructor(engine: Pick<Engine, 'commit'>) {
    this.#engine = engine
  }

  /** How many changes wait. */
  get size(): number {
    return this.#waiting.length
  }

  submit<T>(key: string, begin: (group: CommitGroup) => Steps<T>, lane?: string): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#isClosed) {
        reject(new StoreError('not_written', 'the store is closed'))
        return
      }
      let result: T
      const keep = (given: T) => {
        result = given
      }
      this.#waiting.push({ key, lane, begin, keep, resolve: () => resolve(result), reject })
      this.#schedule()
    })
  }

  /** What is waiting is still committed; nothing new is taken. */
  close(): void {
    this.#isClosed = true
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => this.#flush())
  }

  #flush(): void {
    if (
      this.#waiting.length < LARGEST_GROUP &&
      this.#patience?.shouldWait(this.#waiting.length, performance.now()) === true
    ) {
      setImmediate(() => this.#flush())
      return
    }
    const changes = this.#waiting.splice(0, LARGEST_GROUP)
    this.#patience?.leave(changes.length)
    if (changes.length > 1) changes.sort(byKey)
    const committing = this.#commit(changes)
    if (committing instanceof Promise) {
      this.#patience = undefined
      void committing.then(() => this.#goOn())
    } else this.#goOn()
  }

  #goOn(): void {
    if (this.#busySinceMs !== undefined) {
      setTimeout(() => this.#flush(), BUSY_RETRY_MS * (1 + Math.random()))
      return
    }
    this.#scheduled = false
    if (this.#waiting.length > 0) this.#schedule()
  }

  #commit(changes: readonly Submitted[]): MaybePromise<void> {
    try {
      const committed = this.#engine.commit(changes)
      if (committed instanceof Promise) {
        return committed.then(
          (end) => this.#settle(changes, end),
          (error: unknown) => this.#fail(changes, error),
        )
      }
      return this.#settle(changes, committed)
    } catch (error) {
      return this.#fail(changes, error)
    }
  }

  #settle(changes: readonly Submitted[], end: 'committed' | 'busy'): void {
    if (end === 'busy') {
      this.#putBack(changes)
      return
    }
    this.#busySinceMs = undefined
    for (const change of changes) change.resolve()
  }

  /** A group that failed is tried again one by one, so that only the bad change fails. */
  #fail(changes: readonly Submitted[], error: unknown): MaybePromise<void> {
    const isFinal = changes.length === 1 || (error instanceof StoreError && error.code !== 'not_written')
    if (!isFinal) return this.#commitEach(changes, 0)
    // A TypeError is a mistake of ours and is told as one.
    const said = error instanceof StoreError || error instanceof TypeError ? error : contradicted(error)
    for (const change of changes) change.reject(said)
  }

  #commitEach(changes: readonly Submitted[], from: number): MaybePromise<void> {
    for (const [index, change] of changes.entries()) {
      if (index < from) continue
      const committing = this.#commit([change])
      if (committing instanceof Promise) return committing.then(() => this.#commitEach(changes, index + 1))
    }
  }

  #putBack(changes: readonly Submitted[]): void {
    const nowMs = performance.now()
    this.#busySinceMs ??= nowMs
    if (nowMs - this.#busySinceMs > LONGEST_BUSY_MS) {
      this.#busySinceMs = undefined
      const error = new StoreError('not_written', 'another process kept the database locked for too long')
      for (const change of changes) change.reject(error)
      return
    }
    this.#waiting.unshift(...changes)
  }
}

/** The database works, and this change alone does not: what is stored is not what the change relies on (rule 14). */
function contradicted(error: unknown): StoreError {
  const why = error instanceof Error ? error.message : String(error)
  return new StoreError('unreadable', `this change does not go with what is stored: ${why}`, { cause: error })
}

function byKey(left: PendingChange, right: PendingChange): number {
  return left.key < right.key ? -1 : left.key > right.key ? 1 : 0
}

/** Nothing new for this long: the next change is not on the way. */
const QUIET_MS = 0.15
/** The longest a change waits for company. */
const LONGEST_MS = 2
/** One group in so many waits without a goal, to see whether more callers have come. */
const PROBE_EVERY = 64

/**
 * How long a group waits for more changes before its commit. Callers that just got their answers tend to come back
 * within a moment; a commit that leaves without them is followed by another one for them alone, and commits are what
 * costs. So groups grow to as many changes as were seen to come together, and a lone caller waits for nobody.
 */
export class Patience {
  #goal = 1
  #groups = 0
  #isProbe = false
  #firstMs = 0
  #lastMs = 0
  #previous = 0

  /** Whether to look once more for changes before committing the `waiting` ones. */
  shouldWait(waiting: number, nowMs: number): boolean {
    if (this.#previous === 0) this.#begin(nowMs)
    if (waiting > this.#previous) {
      this.#previous = waiting
      this.#lastMs = nowMs
    }
    if (!this.#isProbe && waiting >= this.#goal) return false
    return nowMs - this.#lastMs < QUIET_MS && nowMs - this.#firstMs < LONGEST_MS
  }

  /** The group is being committed with this many changes. */
  leave(size: number): void {
    // A goal that is missed was too high; what came in a probe can come again.
    this.#goal = this.#isProbe || size < this.#goal ? Math.max(1, size) : this.#goal
    this.#previous = 0
    this.#groups += 1
    this.#isProbe = this.#groups % PROBE_EVERY === 0
  }

  #begin(nowMs: number): void {
    this.#firstMs = nowMs
    this.#lastMs = nowMs
  }
}

/** Gives every group a number in the whole store. A place of a chain has one number, however often its commit is tried. */
export interface GroupIds {
  idOf(writer: number, n: number): number
}

/** Far more than one process commits; two million processes then have numbers that are exact. */
const GROUPS_PER_WRITER = 2 ** 32

/** It says whose a group is and where in the chain, so it needs no look at what others committed. */
const BY_WRITER: GroupIds = { idOf: (writer, n) => writer * GROUPS_PER_WRITER + n }

interface ChainOptions {
  readonly ids?: GroupIds
  /** How long it counts as alive without a sign of life, where that is how a database tells. */
  readonly leaseMs?: number
  /** Host, port and pid, for operators who look for this process. */
  readonly place?: string | undefined
}

/** The newest group of a chain. */
export interface ChainHead {
  readonly n: number
  readonly link: string
}

/** This process as a writer: its data key and its chain (rules 14 and 15). When its steps are committed is the engine's part. */
export class Chain {
  readonly keys: KeyRing
  /** Stores notices for operators with a commit; the module that delivers them sets it. */
  notify: Notify = () => answered(undefined)
  readonly #nowMs: () => number
  readonly #options: ChainOptions & { readonly ids: GroupIds }
  #id: string = randomUUID()
  #writer: { readonly no: number; readonly sealer: Sealer } | undefined
  /** Moved by the engine once a group is committed. */
  head: ChainHead = BEFORE_FIRST

  constructor(keys: KeyRing, nowMs: () => number, options: ChainOptions = {}) {
    this.keys = keys
    this.#nowMs = nowMs
    this.#options = { ids: BY_WRITER, ...options }
  }

  /** Its name in claims, for as long as it lives (rule 17). */
  get id(): string {
    return this.#id
  }

  get isStarted(): boolean {
    return this.#writer !== undefined
  }

  /** The writer's number in call rows; 0 before it began, which no row has. */
  get no(): number {
    return this.#writer?.no ?? 0
  }

  /** The writer's row and its first group, which names the heads of the other chains; gives the head to be. */
  *begin(): Steps<ChainHead> {
    // Under the keys of this moment: a rotation waits for every writer that began with earlier ones.
    yield* this.keys.load()
    const heads = yield* newHeads()
    const dataKey = newDataKey()
    const wrapped = this.keys.seal('data keys', dataKey, dataKeyContext(this.id))
    const { leaseMs = 0, place = null } = this.#options
    const row = (yield* get('insertWriter', this.id, this.#nowMs(), wrapped, leaseMs, place)) ?? {}
    this.#writer = { no: integer(row, 'no'), sealer: new Sealer(dataKey) }
    yield* write(
      'insertWriterKeys',
      this.no,
      this.keys.holds.join(' '),
      this.keys.newest.no,
      this.keys.current.no,
    )
    for (const { no, group } of heads) yield* write('recordHead', group, this.no, no)
    const group = this.openGroup()
    group.append({
      type: 'writer.started',
      at: this.#nowMs(),
      heads: heads.map(({ no: _no, ...head }) => head),
    })
    return yield* this.insert(group)
  }

  /** After a beginning that was not committed, or an end that was. */
  forgetWriter(): void {
    this.#writer = undefined
  }

  /** Rule 18: a writer that was taken for dead never comes back. What it left running is not this one's any more. */
  beginAnew(): void {
    this.#id = randomUUID()
    this.#writer = undefined
    this.head = BEFORE_FIRST
  }

  openGroup(): CommitGroup {
    const id = this.#options.ids.idOf(this.no, this.head.n + 1)
    return new CommitGroup({ id, writer: this.no, keys: this.keys, notify: this.notify })
  }

  /** Seals and links the group; the head it gives is the chain's once it is committed. */
  *insert(group: CommitGroup): Steps<ChainHead> {
    if (this.#writer === undefined) throw new StoreError('not_written', 'the writer has ended')
    const { no, sealer } = this.#writer
    const n = this.head.n + 1
    const atMs = this.#nowMs()
    const { current } = this.keys
    const seal = (segment: Segment, plain: string) =>
      plain === '' ? null : sealer.seal(plain, sealContext(segment, this.id, n), current)
    const callers = seal('callers', group.callers)
    const payload = seal('payload', group.payload)
    const { id, eventsJson, live } = group
    const linked = { id, writer: this.id, group: n, atMs, eventsJson, callers }
    const link = linkOf(current, this.head.link, linked)
    yield* write('insertGroup', id, no, n, atMs, eventsJson, callers, payload, live, link)
    return { n, link }
  }

  /** Rule 15: after an unknown commit the head is read again. */
  *readHead(): Steps<ChainHead | undefined> {
    const row = yield* get('headOf', this.no)
    return row === undefined ? undefined : { n: integer(row, 'n'), link: text(row, 'link') }
  }

  /** The last event of the chain, inside a commit like any other. */
  *recordStop(group: CommitGroup): Steps<void> {
    const at = this.#nowMs()
    group.append({ type: 'writer.stopped', at })
    yield* write('endWriter', at, this.id)
  }
}

/** The link before a chain's first group. */
export const CHAIN_START = ''

const BEFORE_FIRST: ChainHead = { n: -1, link: CHAIN_START }

/** Heads of the chains that grew since a writer last began: what did not grow was recorded by then (rule 15). */
function* newHeads(): Steps<readonly (JournalHead & { readonly no: number })[]> {
  return (yield* all('newHeads')).map((row) => ({
    no: integer(row, 'no'),
    writer: text(row, 'writer'),
    group: integer(row, 'n'),
    link: text(row, 'link'),
  }))
}

/** The two sealed parts of a group: what callers wrote, and inputs and outcomes. */
export type Segment = 'callers' | 'payload'

/** What a sealed segment is bound to: it cannot be moved to another group, writer or segment. */
export function sealContext(segment: Segment, writer: string, group: number): string {
  return `commit_groups ${segment} ${writer} ${group}`
}

/** What a wrapped data key is bound to. */
export function dataKeyContext(writer: string): string {
  return `writer ${writer}`
}

/** What one link of the chain covers: everything of a group that stays as long as the journal. */
interface LinkedGroup {
  /** Number of the group in the whole store: what call rows point to. */
  readonly id: number
  readonly writer: string
  readonly group: number
  readonly atMs: number
  /** The events as the exact text that is stored. */
  readonly eventsJson: string
  /** Sealed caller text, or nothing. */
  readonly callers: Uint8Array | null
}

/** Rule 15: one HMAC per commit group, over the group and the link before it. */
export function linkOf({ no, chain }: Generation, previous: string, group: LinkedGroup): string {
  const { id, writer, group: n, atMs, eventsJson, callers } = group
  // Its length says where the text of the events ends: it need not be written as a text inside of another.
  const facts = `${JSON.stringify([previous, id, writer, n, atMs, eventsJson.length])}${eventsJson}`
  return tagOf(no, chain, facts, ...(callers === null ? [] : [callers]))
}

/** What retention leaves behind in place of the groups it removed. */
export function checkpointSignature(
  { no, chain }: Generation,
  checkpoint: { readonly writer: string; readonly group: number; readonly link: string },
): string {
  const { writer, group, link } = checkpoint
  return tagOf(no, chain, JSON.stringify(['checkpoint', writer, group, link]))
}

export const resealing: readonly Resealing[] = [
  {
    ...{ what: 'data keys', page: 'writersAfter', start: [0] },
    after: (row) => [integer(row, 'no')],
    isDue: (row, keys) => keys.isDue('data keys', bytes(row, 'data_key'), dataKeyContext(text(row, 'id'))),
    *reseal({ keys }, row) {
      const wrapped = keys.reseal('data keys', bytes(row, 'data_key'), dataKeyContext(text(row, 'id')))
      yield* write('rewrapDataKey', wrapped, integer(row, 'no'))
    },
  },
  {
    ...{ what: 'checkpoints of the journal', page: 'checkpointsAfter', start: [0] },
    after: (row) => [integer(row, 'no')],
    isDue(row, keys) {
      const signature = text(row, 'signature')
      const generation = keys.find(generationOfTag(signature))
      if (generation === undefined || generation.no === keys.current.no) return false
      return checkpointSignature(generation, checkpointFrom(row)) === signature
    },
    *reseal({ keys }, row) {
      yield* write(
        'resignCheckpoint',
        checkpointSignature(keys.current, checkpointFrom(row)),
        integer(row, 'no'),
      )
    },
  },
]

function checkpointFrom(row: Row) {
  return { writer: text(row, 'id'), group: integer(row, 'n'), link: text(row, 'link') }
}

export const queries = {
  writersAfter: 'SELECT no, id, data_key FROM writers WHERE no > ? ORDER BY no LIMIT ?',
  rewrapDataKey: 'UPDATE writers SET data_key = ? WHERE no = ?',
  checkpointsAfter: `SELECT w.no, w.id, c.n, c.link, c.signature FROM writers w JOIN checkpoints c ON c.writer = w.no
    WHERE w.no > ? ORDER BY w.no LIMIT ?`,
  resignCheckpoint: 'UPDATE checkpoints SET signature = ? WHERE writer = ?',
  insertWriter:
    'INSERT INTO writers (id, started_at, data_key, lease_until, place) VALUES (?, ?, ?, ?, ?) RETURNING no',
  /** A writer that was taken for dead stays dead, whatever clocks say later (rule 18). */
  endLease: 'UPDATE writers SET lease_until = 0 WHERE no = ? AND lease_until > 0',
  /** A writer has ended when nothing of it runs any more; what does is left for recovery. */
  endWriter: `UPDATE writers SET ended_at = ? WHERE id = ?
    AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.writer = writers.no AND calls.state = 'running')
    AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.writer = writers.no AND sessions.state <> 'closed')`,
  insertGroup:
    'INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
  headOf: 'SELECT n, link FROM commit_groups WHERE writer = ? ORDER BY n DESC LIMIT 1',
  // Heads that nobody recorded, and those whose recording retention has forgotten. The newest group of each writer is
  // looked up; CROSS JOIN keeps SQLite from reading every group instead.
  newHeads: `SELECT w.no, w.id AS writer, g.n, g.link FROM writers w CROSS JOIN commit_groups g
    WHERE g.writer = w.no AND g.n = (SELECT max(n) FROM commit_groups WHERE writer = w.no)
      AND (g.n <> w.recorded_n OR NOT EXISTS (SELECT 1 FROM commit_groups r WHERE r.writer = w.recorded_by AND r.n = 0))`,
  insertWriterKeys: 'INSERT INTO writer_keys (writer, holds, knows, uses) VALUES (?, ?, ?, ?)',
  recordHead: 'UPDATE writers SET recorded_n = ?, recorded_by = ? WHERE no = ?',
} as const

/**
 * A group row carries the journal events of one commit, the sealed caller text (kept as long as the journal) and the
 * sealed inputs and outcomes (kept as long as results); call rows point into it by group, offset and length (rule 14).
 */
export const tables = `
CREATE TABLE writers (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  data_key BLOB NOT NULL,
  lease_until INTEGER NOT NULL DEFAULT 0,
  recorded_n INTEGER NOT NULL DEFAULT -1,
  recorded_by INTEGER NOT NULL DEFAULT 0,
  place TEXT
) STRICT;

CREATE TABLE writer_keys (
  writer INTEGER PRIMARY KEY,
  holds TEXT NOT NULL,
  knows INTEGER NOT NULL,
  uses INTEGER NOT NULL
) STRICT;

CREATE TABLE commit_groups (
  id INTEGER PRIMARY KEY,
  writer INTEGER NOT NULL,
  n INTEGER NOT NULL,
  at INTEGER NOT NULL,
  events TEXT NOT NULL,
  callers BLOB,
  payload BLOB,
  live INTEGER NOT NULL,
  link TEXT NOT NULL,
  UNIQUE (writer, n)
) STRICT;

CREATE TABLE checkpoints (
  writer INTEGER PRIMARY KEY,
  n INTEGER NOT NULL,
  link TEXT NOT NULL,
  signature TEXT NOT NULL
) STRICT;
`
