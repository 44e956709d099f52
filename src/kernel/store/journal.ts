import { randomUUID } from 'node:crypto'
import { BoundedMap } from '#kernel/base/bounded-map'
import { StoreError } from '#kernel/base/errors'
import type {
  JournalChain,
  JournalEvent,
  JournalGroup,
  JournalHead,
  JournalPosition,
} from '#kernel/journal/events'
import { all, answered, CommitGroup, get, type Notify, type Row, type Steps, write } from './engine.ts'
import {
  type Generation,
  type GroupKey,
  generationIn,
  generationOfTag,
  groupKeyOf,
  type KeyRing,
  newDataKey,
  type ResealableRows,
  Sealer,
  tagOf,
  unseal,
} from './key-ring.ts'
import {
  bytes,
  integer,
  openReasonIn,
  optionalBytes,
  optionalInteger,
  type SealedText,
  text,
} from './rows.ts'

/**
 * The journal: this process's chain of linked commit groups and its data key (rules 14 and 15), and reading all chains. Engines
 * commit the groups; followers, exports and verification read them; `openGroups` opens the sealed texts of calls.
 * Each chain keeps its own order. Readers merge chains by the time of their groups and keep a position per chain, because with
 * one position for all chains they would miss groups that another process commits late (rule 16).
 */

/** Numbers groups across the whole store. A position in a chain always has the same number, however often its commit is tried. */
export interface GroupIds {
  idOf(writer: number, n: number): number
}

/** Far more groups than one process commits; the numbers of two million processes still fit into exact integers. */
const GROUPS_PER_WRITER = 2 ** 32

/** The number encodes the writer and the position in its chain, so it does not depend on other writers' commits. */
const BY_WRITER: GroupIds = { idOf: (writer, n) => writer * GROUPS_PER_WRITER + n }

interface ChainOptions {
  readonly ids?: GroupIds
  /** How long the writer counts as alive without renewing its lease, if the database uses leases. */
  readonly leaseMs?: number
  /** Host, port and process id, for operators who look for this process. */
  readonly place?: string | undefined
}

export interface ChainHead {
  readonly n: number
  readonly link: string
}

/** This process's chain. The engine decides when the chain's steps are committed. */
export class Chain {
  readonly keys: KeyRing
  /** Stores notices for operators with a commit; the module that delivers notices sets this function. */
  notify: Notify = () => answered(undefined)
  /** Called after each commit of this chain with its events and its position; the module that counts calls sets this function. */
  onCommitted: (events: readonly JournalEvent[], n: number) => void = () => undefined
  readonly #nowMs: () => number
  readonly #options: ChainOptions & { readonly ids: GroupIds }
  #id: string = randomUUID()
  #writer: { readonly no: number; readonly sealer: Sealer } | undefined
  /** The last committed group; the engine updates it after each commit. */
  head: ChainHead = BEFORE_FIRST

  constructor(keys: KeyRing, nowMs: () => number, options: ChainOptions = {}) {
    this.keys = keys
    this.#nowMs = nowMs
    this.#options = { ids: BY_WRITER, ...options }
  }

  /** The writer's name in claims (rule 17). */
  get id(): string {
    return this.#id
  }

  get isStarted(): boolean {
    return this.#writer !== undefined
  }

  /** The writer's number in call rows; before the writer has started it is 0, which no row has. */
  get no(): number {
    return this.#writer?.no ?? 0
  }

  /** Inserts the writer's row and its first group, which names the heads of the other chains; returns the head after the commit. */
  *begin(): Steps<ChainHead> {
    // The current keys are loaded first: a rotation waits for every writer that started with earlier keys.
    yield* this.keys.load()
    const heads = yield* newHeads()
    const dataKey = newDataKey()
    const wrapped = this.keys.seal('data keys', dataKey, dataKeyContext(this.id))
    const { leaseMs = 0, place = null } = this.#options
    const row = (yield* get('insertWriter', this.id, this.#nowMs(), wrapped, leaseMs, place)) ?? {}
    this.#writer = { no: integer(row, 'no'), sealer: new Sealer(dataKey) }
    const { holds, newest, current } = this.keys
    yield* write('insertWriterKeys', this.no, holds.join(' '), newest.no, current.no)
    for (const { no, group } of heads) yield* write('recordHead', group, this.no, no)
    const group = this.openGroup()
    const known = heads.map(({ no: _no, ...head }) => head)
    group.append({ type: 'writer.started', at: this.#nowMs(), heads: known })
    return yield* this.insert(group)
  }

  /** Called if the writer's start was not committed, or after its end was committed. */
  forgetWriter(): void {
    this.#writer = undefined
  }

  /** Rule 18: a writer that was declared dead never returns, so this process continues as a new writer, without its running calls. */
  beginAgain(): void {
    this.#id = randomUUID()
    this.#writer = undefined
    this.head = BEFORE_FIRST
  }

  openGroup(): CommitGroup {
    const id = this.#options.ids.idOf(this.no, this.head.n + 1)
    return new CommitGroup({ id, writer: this.no, keys: this.keys, notify: this.notify })
  }

  /** Seals and links the group; returns the chain's head after the commit. */
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

  /** Called by the engine after it has committed the group. */
  advance(head: ChainHead, group: CommitGroup): void {
    this.head = head
    this.onCommitted(group.events, head.n)
  }

  /** Called between commits, when no caller waits. */
  prepare(): void {
    const contexts = SEGMENTS.map((segment) => sealContext(segment, this.id, this.head.n + 1))
    this.#writer?.sealer.prepare(contexts, this.keys.current)
  }

  /** Rule 15: the head is read again after a commit whose result is unknown. */
  *readHead(): Steps<ChainHead | undefined> {
    const row = yield* get('headOf', this.no)
    return row === undefined ? undefined : { n: integer(row, 'n'), link: text(row, 'link') }
  }

  /** The last event of the chain, committed like any other. */
  *recordStop(group: CommitGroup): Steps<void> {
    const at = this.#nowMs()
    group.append({ type: 'writer.stopped', at })
    yield* write('endWriter', at, this.id)
  }
}

/** The link before a chain's first group. */
export const CHAIN_START = ''

const BEFORE_FIRST: ChainHead = { n: -1, link: CHAIN_START }

/** Heads of the chains that grew after a writer last started; the other heads were recorded then (rule 15). */
function* newHeads(): Steps<readonly (JournalHead & { readonly no: number })[]> {
  return (yield* all('newHeads')).map((row) => ({
    no: integer(row, 'no'),
    writer: text(row, 'writer'),
    group: integer(row, 'n'),
    link: text(row, 'link'),
  }))
}

/** The two sealed parts of a group: callers' texts (`callers`), and inputs and outcomes (`payload`). */
const SEGMENTS = ['callers', 'payload'] as const
type Segment = (typeof SEGMENTS)[number]

/** Binds a sealed segment to its position: it cannot be moved to another group, writer or segment. */
function sealContext(segment: Segment, writer: string, group: number): string {
  return `commit_groups ${segment} ${writer} ${group}`
}

function dataKeyContext(writer: string): string {
  return `writer ${writer}`
}

/** The members of a group that its link covers: all data that is kept as long as the journal. */
interface LinkedGroup {
  /** Number of the group in the whole store, which call rows refer to. */
  readonly id: number
  readonly writer: string
  readonly group: number
  readonly atMs: number
  /** The exact text that is stored. */
  readonly eventsJson: string
  /** Callers' texts, sealed; `null` if there are none. */
  readonly callers: Uint8Array | null
}

/** Rule 15: one HMAC per commit group, over the group and the link before it. */
export function linkOf({ no, chain }: Generation, previous: string, group: LinkedGroup): string {
  const { id, writer, group: n, atMs, eventsJson, callers } = group
  // The length marks where the events end, so that their text need not be quoted.
  const facts = `${JSON.stringify([previous, id, writer, n, atMs, eventsJson.length])}${eventsJson}`
  return tagOf(no, chain, facts, ...(callers === null ? [] : [callers]))
}

/** Signs a checkpoint, which replaces the groups that retention removed. */
export function checkpointSignature({ no, chain }: Generation, checkpoint: JournalHead): string {
  const { writer, group, link } = checkpoint
  return tagOf(no, chain, JSON.stringify(['checkpoint', writer, group, link]))
}

const MAX_BYTES = 16 * 1024 * 1024
/** Approximate overhead of a cached group besides its text. */
const ENTRY_BYTES = 512

/** Opens sealed texts. Recently opened groups are cached, because a replayed call is often followed by calls from the same group. */
export function openGroups(keys: KeyRing): SealedText {
  const writers = new Map<number, WriterKeys>()
  const opened = new BoundedMap<string, Buffer>({ weight: MAX_BYTES })

  return function* read(segment, { group, at, length }) {
    const name = `${segment} ${group}`
    let plain = opened.get(name)
    if (plain === undefined) {
      const row = yield* sealedGroup(segment, group)
      const writer = integer(row, 'writer')
      const known = writers.get(writer) ?? (yield* readWriter(keys, writer))
      writers.set(writer, known)
      const sealed = bytes(row, segment)
      const key = known.keyOf(generationIn(sealed))
      plain = unseal(key, sealed, sealContext(segment, known.id, integer(row, 'n')))
      if (plain.length <= MAX_BYTES) opened.set(name, ownCopy(plain), plain.length + ENTRY_BYTES)
    }
    return plain.toString('utf8', at, at + length)
  }
}

/** Opens the callers' texts of a group row, which has its writer, `n` and `callers`; for readers of every group in turn. */
export function openCallers(keys: KeyRing): (row: Row) => Steps<string> {
  const writers = new Map<number, WriterKeys>()
  return function* open(row) {
    const sealed = optionalBytes(row, 'callers')
    if (sealed === null) return ''
    const writer = integer(row, 'writer')
    const known = writers.get(writer) ?? (yield* readWriter(keys, writer))
    writers.set(writer, known)
    const key = known.keyOf(generationIn(sealed))
    return unseal(key, sealed, sealContext('callers', known.id, integer(row, 'n'))).toString('utf8')
  }
}

/** Copies the text out of Node's buffer pool, because a short text would keep the whole pool alive. */
function ownCopy(plain: Buffer): Buffer {
  return plain.buffer.byteLength === plain.length ? plain : Buffer.from(Uint8Array.from(plain).buffer)
}

interface WriterKeys {
  /** The writer's id, which its groups are bound to. */
  readonly id: string
  keyOf(generation: number): GroupKey['key']
}

function* sealedGroup(segment: Segment, group: number): Steps<Row> {
  const row = yield* get(segment === 'callers' ? 'groupCallers' : 'groupPayload', group)
  if (row !== undefined && row[segment] !== null) return row
  const message = `the ${segment} of commit group ${group} were removed although a call needs them`
  throw new StoreError('unreadable', message)
}

function* readWriter(keys: KeyRing, writerNo: number): Steps<WriterKeys> {
  const row = yield* get('writerByNo', writerNo)
  if (row === undefined) throw new StoreError('unreadable', `writer ${writerNo} of a commit group is unknown`)
  const id = text(row, 'id')
  const dataKey = keys.open('data keys', bytes(row, 'data_key'), dataKeyContext(id))
  const known = new Map<number, GroupKey['key']>()
  return {
    id,
    keyOf(generation) {
      const key = known.get(generation) ?? groupKeyOf(keys.of(generation), dataKey).key
      known.set(generation, key)
      return key
    },
  }
}

/** The part of a chain that a reader has not seen. */
interface UnreadChain {
  readonly no: number
  readonly writer: string
  /** The last group passed to the reader. */
  position: number
  /** Commit time of the chain's next group, or an earlier time until that group is read. */
  nextMs: number
  rows: readonly Row[]
}

const GROUPS_AT_ONCE = 100

/** Groups after the given position of each chain, at most `limit`. */
export function* readJournal(
  keys: KeyRing,
  after: readonly JournalPosition[],
  limit: number,
): Steps<readonly JournalGroup[]> {
  let chains = yield* unreadChains(after)
  const groups: JournalGroup[] = []
  while (groups.length < limit && chains.length > 0) {
    const chain = chains.reduce((first, other) => (other.nextMs < first.nextMs ? other : first))
    const [row, ...rest] = chain.rows
    if (row === undefined) {
      chain.rows = yield* all('groupsOf', chain.no, chain.position, GROUPS_AT_ONCE)
      if (chain.rows.length === 0) chains = chains.filter((other) => other !== chain)
    } else {
      groups.push(groupFromRow(row, chain.writer, keys))
      chain.position = integer(row, 'n')
      chain.rows = rest
    }
    const [next] = chain.rows
    if (next !== undefined) chain.nextMs = integer(next, 'at')
  }
  return groups
}

/** Every chain with its current end. */
export function* journalChains(): Steps<readonly JournalChain[]> {
  return (yield* all('chains')).map((row) => ({
    no: integer(row, 'no'),
    writer: text(row, 'id'),
    group: optionalInteger(row, 'last') ?? -1,
    hasEnded: optionalInteger(row, 'ended_at') !== undefined,
  }))
}

function* unreadChains(after: readonly JournalPosition[]): Steps<readonly UnreadChain[]> {
  const positions = new Map<string, number>()
  for (const { writer, group } of after) positions.set(writer, Math.max(group, positions.get(writer) ?? -1))
  return (yield* all('chains')).flatMap((row) => {
    const writer = text(row, 'id')
    const position = positions.get(writer)
    const last = optionalInteger(row, 'last') ?? -1
    if (last <= (position ?? -1)) return []
    const nextMs = position === undefined ? integer(row, 'started_at') : 0
    return [{ no: integer(row, 'no'), writer, position: position ?? -1, nextMs, rows: [] }]
  })
}

export function groupFromRow(row: Row, writer: string, keys: KeyRing): JournalGroup {
  const events: readonly JournalEvent[] = JSON.parse(text(row, 'events'))
  return {
    writer,
    group: integer(row, 'n'),
    link: text(row, 'link'),
    atMs: integer(row, 'at'),
    events: events.map((event) => openReasonIn(keys, event)),
  }
}

export const resealing: readonly ResealableRows[] = [
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
      const signature = checkpointSignature(keys.current, checkpointFrom(row))
      yield* write('resignCheckpoint', signature, integer(row, 'no'))
    },
  },
]

function checkpointFrom(row: Row) {
  return { writer: text(row, 'id'), group: integer(row, 'n'), link: text(row, 'link') }
}

export const queries = {
  linkAt: 'SELECT link FROM commit_groups WHERE writer = ? AND n = ?',
  chains: `SELECT w.no, w.id, w.started_at, w.ended_at, (SELECT max(n) FROM commit_groups WHERE writer = w.no) AS last
    FROM writers w ORDER BY w.no`,
  groupsOf: 'SELECT n, at, events, link FROM commit_groups WHERE writer = ? AND n > ? ORDER BY n LIMIT ?',
  groupCallers: 'SELECT writer, n, callers FROM commit_groups WHERE id = ?',
  groupPayload: 'SELECT writer, n, payload FROM commit_groups WHERE id = ?',
  writerByNo: 'SELECT no, id, ended_at, data_key FROM writers WHERE no = ?',
  writersAfter: 'SELECT no, id, data_key FROM writers WHERE no > ? ORDER BY no LIMIT ?',
  rewrapDataKey: 'UPDATE writers SET data_key = ? WHERE no = ?',
  checkpointsAfter: `SELECT w.no, w.id, c.n, c.link, c.signature FROM writers w JOIN checkpoints c ON c.writer = w.no
    WHERE w.no > ? ORDER BY w.no LIMIT ?`,
  resignCheckpoint: 'UPDATE checkpoints SET signature = ? WHERE writer = ?',
  insertWriter:
    'INSERT INTO writers (id, started_at, data_key, lease_until, place) VALUES (?, ?, ?, ?, ?) RETURNING no',
  /** A writer that was declared dead stays dead, even if a clock is set back later (rule 18). */
  endLease: 'UPDATE writers SET lease_until = 0 WHERE no = ? AND lease_until > 0',
  /** A writer ends only if none of its calls run and its sessions are closed; otherwise recovery ends it. */
  endWriter: `UPDATE writers SET ended_at = ? WHERE id = ?
    AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.writer = writers.no AND calls.state = 'running')
    AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.writer = writers.no AND sessions.state <> 'closed')`,
  insertGroup:
    'INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
  headOf: 'SELECT n, link FROM commit_groups WHERE writer = ? ORDER BY n DESC LIMIT 1',
  // Heads that are not recorded yet, or whose record was removed by retention. CROSS JOIN makes SQLite look up the newest group
  // of each writer instead of reading every group.
  newHeads: `SELECT w.no, w.id AS writer, g.n, g.link FROM writers w CROSS JOIN commit_groups g
    WHERE g.writer = w.no AND g.n = (SELECT max(n) FROM commit_groups WHERE writer = w.no)
      AND (g.n <> w.recorded_n OR NOT EXISTS (SELECT 1 FROM commit_groups r WHERE r.writer = w.recorded_by AND r.n = 0))`,
  insertWriterKeys: 'INSERT INTO writer_keys (writer, holds, knows, uses) VALUES (?, ?, ?, ?)',
  recordHead: 'UPDATE writers SET recorded_n = ?, recorded_by = ? WHERE no = ?',
} as const

/**
 * A group row contains the journal events of one commit, the sealed caller text (kept as long as the journal) and the sealed
 * inputs and outcomes (kept as long as results). Call rows refer to these texts by group, offset and length (rule 14).
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
