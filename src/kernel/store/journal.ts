import { BoundedMap } from '#kernel/base/bounded-map'
import { StoreError } from '#kernel/base/errors'
import type { JournalChain, JournalEvent, JournalGroup, JournalPosition } from '#kernel/journal/events'
import { dataKeyContext, type Segment, sealContext } from './chain.ts'
import { all, get, type Row, type Steps } from './engine.ts'
import { type GroupKey, groupGeneration, groupKeyOf, type KeyRing, SEALED, unseal } from './key-ring.ts'
import { bytes, integer, optionalInteger, type SealedText, text } from './rows.ts'

/**
 * Reading the journal and sealed texts back: `openGroups` for the texts of calls, `readJournal` for followers, exports and
 * verification. Each chain keeps its own order; chains are merged by the time of their groups, because one number over all chains
 * would lose what another process commits late (rule 16).
 */

const MAX_BYTES = 16 * 1024 * 1024
/** Approximate overhead of a cached group besides its text. */
const ENTRY_BYTES = 512

/** Opens sealed texts. Recently opened groups are cached: a replayed call is often followed by its neighbours. */
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
      const key = known.keyOf(groupGeneration(sealed))
      plain = unseal(key, sealed, sealContext(segment, known.id, integer(row, 'n')))
      if (plain.length <= MAX_BYTES) opened.set(name, alone(plain), plain.length + ENTRY_BYTES)
    }
    return plain.toString('utf8', at, at + length)
  }
}

/** Copies to its own memory: a short text from Node's buffer pool would keep the whole pool alive. */
function alone(plain: Buffer): Buffer {
  return plain.buffer.byteLength === plain.length ? plain : Buffer.from(Uint8Array.from(plain).buffer)
}

interface WriterKeys {
  /** The writer's id, which its groups are bound to. */
  readonly id: string
  keyOf(generation: number): GroupKey['key']
}

function* sealedGroup(segment: Segment, group: number): Steps<Row> {
  const row = yield* get('groupContents', group)
  if (row !== undefined && row[segment] !== null) return row
  throw new StoreError(
    'unreadable',
    `the ${segment} of commit group ${group} are gone although a call needs them`,
  )
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
  /** Commit time of its next group, or an earlier time until that one is read. */
  dueMs: number
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
    const chain = chains.reduce((first, other) => (other.dueMs < first.dueMs ? other : first))
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
    if (next !== undefined) chain.dueMs = integer(next, 'at')
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
    const dueMs = position === undefined ? integer(row, 'started_at') : 0
    return [{ no: integer(row, 'no'), writer, position: position ?? -1, dueMs, rows: [] }]
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

export const queries = {
  linkAt: 'SELECT link FROM commit_groups WHERE writer = ? AND n = ?',
  chains: `SELECT w.no, w.id, w.started_at, w.ended_at, (SELECT max(n) FROM commit_groups WHERE writer = w.no) AS last
    FROM writers w ORDER BY w.no`,
  groupsOf: 'SELECT n, at, events, link FROM commit_groups WHERE writer = ? AND n > ? ORDER BY n LIMIT ?',
  groupContents: `SELECT g.writer, g.n, g.callers, g.payload FROM commit_groups g WHERE g.id = ?`,
  writerByNo: 'SELECT no, id, ended_at, data_key FROM writers WHERE no = ?',
} as const
