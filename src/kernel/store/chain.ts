import { randomUUID } from 'node:crypto'
import { StoreError } from '#kernel/base/errors'
import type { JournalHead } from '#kernel/journal/events'
import { generationOfTag, newDataKey, Sealer, tagOf } from './encryption.ts'
import { all, answered, CommitGroup, get, type Notify, type Row, type Steps, write } from './engine.ts'
import type { Generation, KeyRing, Resealing } from './key-ring.ts'
import { bytes, integer, text } from './rows.ts'

/**
 * This process as a writer of the store: its data key, and its chain of linked commit groups (rules 14 and 15). The journal of a
 * store is all its chains. Engines commit what a chain makes; verification walks chains from start to head.
 */

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
