import { createHmac, type KeyObject, randomUUID } from 'node:crypto'
import { StoreError } from '#core/errors'
import type { JournalHead } from '#core/journal/events'
import { newDataKey, Sealer, type StoreKeys, wrapDataKey } from './encryption.ts'
import { CommitGroup } from './engine.ts'
import { integer, text } from './rows.ts'
import { all, get, type Steps, write } from './steps.ts'

/** Far more than one process commits; two million processes then have numbers that are exact. */
const GROUPS_PER_WRITER = 2 ** 32

/** The newest group of a chain. */
export interface ChainHead {
  readonly n: number
  readonly link: string
}

/**
 * This process as a writer: its data key, and the chain of its commit groups (rules 14 and 15). When and how its steps are
 * committed is the engine's part.
 */
export class Chain {
  readonly id = randomUUID()
  readonly keys: StoreKeys
  readonly #nowMs: () => number
  #writer: { readonly no: number; readonly sealer: Sealer } | undefined
  /** Moved by the engine once a group is committed. */
  head: ChainHead = { n: -1, link: CHAIN_START }

  constructor(keys: StoreKeys, nowMs: () => number) {
    this.keys = keys
    this.#nowMs = nowMs
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
    const heads = yield* newHeads()
    const dataKey = newDataKey()
    const wrapped = wrapDataKey(this.keys.wrap, dataKey, this.id)
    const row = (yield* get('insertWriter', this.id, this.#nowMs(), wrapped)) ?? {}
    this.#writer = { no: integer(row, 'no'), sealer: new Sealer(dataKey) }
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

  /** Its id says whose it is and where in the chain, so it needs no look at what others committed. */
  openGroup(): CommitGroup {
    const id = this.no * GROUPS_PER_WRITER + this.head.n + 1
    return new CommitGroup({ id, writer: this.no, keys: this.keys })
  }

  /** Seals and links the group; the head it gives is the chain's once it is committed. */
  *insert(group: CommitGroup): Steps<ChainHead> {
    if (this.#writer === undefined) throw new StoreError('not_written', 'the writer has ended')
    const { no, sealer } = this.#writer
    const n = this.head.n + 1
    const atMs = this.#nowMs()
    const seal = (segment: Segment, plain: string) =>
      plain === '' ? null : sealer.seal(plain, sealContext(segment, this.id, n))
    const callers = seal('callers', group.callers)
    const payload = seal('payload', group.payload)
    const { id, eventsJson, live } = group
    const linked = { id, writer: this.id, group: n, atMs, eventsJson, callers }
    const link = linkOf(this.keys.chain, this.head.link, linked)
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
export function linkOf(chainKey: KeyObject, previous: string, group: LinkedGroup): string {
  const hmac = createHmac('sha256', chainKey)
  hmac.update(JSON.stringify([previous, group.id, group.writer, group.group, group.atMs, group.eventsJson]))
  if (group.callers !== null) hmac.update(group.callers)
  return hmac.digest('base64url')
}

/** What retention leaves behind in place of the groups it removed. */
export function checkpointSignature(
  chainKey: KeyObject,
  checkpoint: { readonly writer: string; readonly group: number; readonly link: string },
): string {
  const { writer, group, link } = checkpoint
  return createHmac('sha256', chainKey)
    .update(JSON.stringify(['checkpoint', writer, group, link]))
    .digest('base64url')
}

/** The link before a chain's first group. */
export const CHAIN_START = ''

export const queries = {
  insertWriter: 'INSERT INTO writers (id, started_at, data_key) VALUES (?, ?, ?) RETURNING no',
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
  recorded_n INTEGER NOT NULL DEFAULT -1,
  recorded_by INTEGER NOT NULL DEFAULT 0
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
