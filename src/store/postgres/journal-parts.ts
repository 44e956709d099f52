import { type Row, write } from '#kernel/store/engine'
import { checkpointSignature, type GroupIds } from '#kernel/store/journal'
import type { KeyRing } from '#kernel/store/key-ring'
import { integer, text } from '#kernel/store/rows'
import { statementOf } from './batches.ts'
import {
  COMMIT,
  type Connection,
  isBusy,
  isDoneAlready,
  lacksPermission,
  ROLLBACK,
  type Statement,
} from './connection.ts'

/**
 * The journal's table, partitioned by time. The number of a commit group begins with its day: a look-up by number reads one
 * partition, and retention drops whole partitions. Days without a partition are in the default one, where retention deletes row
 * by row. The engine maintains the partitions as part of the retention job.
 */

const DAY_MS = 86_400_000
const FIRST_DAY = Date.UTC(2025, 0, 1) / DAY_MS
/** Group numbers per volume. */
const VOLUME = 2 ** 24
/** Volumes per day. Numbers stay safe integers for 22 years. */
const VOLUMES_PER_DAY = 2 ** 16
const DAY = VOLUME * VOLUMES_PER_DAY

/** Days since `FIRST_DAY`. */
function dayOf(ms: number): number {
  return Math.max(0, Math.floor(ms / DAY_MS) - FIRST_DAY)
}

/** Numbers the groups of this process, which reserves a volume of numbers for itself when it starts and on each new day. */
export class Volumes implements GroupIds {
  readonly #nowMs: () => number
  #current = { no: -1, day: -1, firstN: 0 }
  /** Position of a group whose commit is in progress. Until the result is known, a replacement must have the same number. */
  #sentN = -1

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** Whether the group at this position needs a new volume. */
  isDue(n: number): boolean {
    const { day, firstN } = this.#current
    return n !== this.#sentN && (dayOf(this.#nowMs()) > day || n - firstN >= VOLUME)
  }

  /** Reserves a volume outside of the commit that needs it. An unused volume does no harm. */
  async take(connection: Connection, n: number): Promise<void> {
    let day = Math.max(dayOf(this.#nowMs()), this.#current.day)
    for (;;) {
      const { rows } = await connection.one({ ...TAKE_VOLUME, values: [day, day * DAY, (day + 1) * DAY] })
      const nth = integer(rows[0] ?? {}, 'nth')
      if (nth < VOLUMES_PER_DAY) {
        this.#current = { no: day * VOLUMES_PER_DAY + nth, day, firstN: n }
        return
      }
      day += 1
    }
  }

  /** Notes that the commit of the group at this position was sent. */
  noteSent(n: number): void {
    this.#sentN = n
  }

  /** Notes that the commit was definitely rolled back. */
  noteUndone(): void {
    this.#sentN = -1
  }

  idOf(_writer: number, n: number): number {
    const { no, firstN } = this.#current
    return no * VOLUME + n - firstN
  }
}

/** The next volume of a day, after any numbers that were copied from another database. */
const TAKE_VOLUME = {
  name: 'takeVolume',
  text: `INSERT INTO journal_volumes (day, next)
    SELECT $1::bigint, coalesce((max(id) - $2) / ${VOLUME} + 1, 0) FROM commit_groups WHERE id >= $2 AND id < $3
    ON CONFLICT (day) DO UPDATE SET next = greatest(journal_volumes.next + 1, excluded.next) RETURNING next AS nth`,
}

/** Tables that only PostgreSQL has. */
export const PARTS_TABLES = `
CREATE TABLE journal_volumes (day BIGINT PRIMARY KEY, next BIGINT NOT NULL);
CREATE TABLE commit_groups_rest PARTITION OF commit_groups DEFAULT;
`

/** Approximate number of partitions, whatever the retention: each one makes every look-up a little slower. */
const PARTS = 12
/** A partition with more groups than this that calls still need is kept. */
const MAX_LIVE = 10_000
/** Commits wait while a partition is created or dropped, so this work must not itself wait for locks. */
const LOCK_LIMIT = { text: "SET LOCAL lock_timeout = '200ms'" }
/** Tries to take the lock of the process that creates or drops a partition. */
const TRY_LOCK = { text: 'SELECT pg_try_advisory_xact_lock(20420) AS mine' }

interface Part {
  readonly name: string
  /** Its first day, and the first day after it. */
  readonly from: number
  readonly to: number
}

/** The partitions to create and to drop, given the existing ones (`LIST_PARTS`). */
export function planParts(listed: readonly Row[], nowMs: number, keptMs: number) {
  const parts = listed.flatMap(readPart)
  // The partition is created a day ahead, so that no process commits into it in the meantime.
  const from = dayOf(nowMs) + 1
  const isThere = parts.some((part) => part.from <= from && from < part.to)
  const width = Math.max(1, Math.floor(keptMs / DAY_MS / PARTS))
  const to = Math.min(from + width, ...parts.filter((part) => part.from > from).map((part) => part.from))
  const oldest = dayOf(nowMs - keptMs)
  return {
    make: isThere ? undefined : { name: nameOf(from), from, to },
    drop: parts.filter((part) => part.to <= oldest).sort((left, right) => left.from - right.from),
  }
}

function nameOf(day: number): string {
  const date = new Date((day + FIRST_DAY) * DAY_MS).toISOString().slice(0, 10)
  return `commit_groups_${date.replaceAll('-', '')}`
}

export const LIST_PARTS: Statement = {
  name: 'listParts',
  text: `SELECT c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bounds FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass('commit_groups')`,
}

function readPart(row: Row): readonly Part[] {
  const name = text(row, 'name')
  const bounds = /FROM \('(\d+)'\) TO \('(\d+)'\)/.exec(text(row, 'bounds'))
  if (bounds === null || !/^commit_groups_\d{8}$/.test(name)) return []
  return [{ name, from: Number(bounds[1]) / DAY, to: Number(bounds[2]) / DAY }]
}

/** Creates and drops partitions, one transaction each; a locked partition is left for the next time. */
export async function maintainPartitions(
  connection: Connection,
  plan: ReturnType<typeof planParts>,
  keys: KeyRing,
): Promise<number> {
  let groups = 0
  try {
    if (plan.make !== undefined) await makePart(connection, plan.make)
    for (const part of plan.drop) groups += await dropPart(connection, part, keys)
  } catch (error) {
    // A role that may not create tables keeps everything in the default partition.
    if (!isBusy(error) && !lacksPermission(error) && !isDoneAlready(error)) throw error
  }
  return groups
}

async function makePart(connection: Connection, { name, from, to }: Part): Promise<void> {
  await runExclusively(connection, async () => {
    // The table is created first and then attached, because creating it as a partition would block commits.
    await connection.send([
      { text: `CREATE TABLE IF NOT EXISTS ${name} (LIKE commit_groups INCLUDING ALL)` },
      {
        text: `ALTER TABLE commit_groups ATTACH PARTITION ${name} FOR VALUES FROM (${from * DAY}) TO (${to * DAY})`,
      },
    ])
  })
}

/** Drops a partition. Saves a signed checkpoint for every chain in it (rule 15), and moves groups that calls still need (rule 13). */
async function dropPart(connection: Connection, { name }: Part, keys: KeyRing): Promise<number> {
  // Scans before taking locks, because a group that no call needs is never needed again.
  const [, counted, living] = await connection.send([
    { text: 'SET enable_seqscan = on' },
    { text: `SELECT count(*) AS groups FROM ${name}` },
    { text: `SELECT id FROM ${name} WHERE live > 0 LIMIT ${MAX_LIVE + 1}` },
  ])
  const needed = (living?.rows ?? []).map((row) => integer(row, 'id'))
  if (needed.length > MAX_LIVE) return 0
  const isDropped = await runExclusively(connection, async () => {
    const { rows } = await connection.one({ text: headsIn(name) })
    const checkpoints = rows.map((row) => {
      const head = { writer: text(row, 'id'), group: integer(row, 'n'), link: text(row, 'link') }
      const columns = [integer(row, 'no'), head.group, head.link, checkpointSignature(keys.current, head)]
      return statementOf(write('saveCheckpoint', ...columns), 'change')
    })
    await connection.send([
      ...checkpoints,
      { text: `ALTER TABLE commit_groups DETACH PARTITION ${name}` },
      {
        text: `INSERT INTO commit_groups SELECT * FROM ${name} WHERE id = ANY($1::bigint[]) AND live > 0`,
        values: [needed],
      },
      { text: `DROP TABLE ${name}` },
    ])
  })
  return isDropped ? integer(counted?.rows[0] ?? {}, 'groups') - needed.length : 0
}

/** The newest group of each chain in a partition. */
function headsIn(name: string): string {
  return `SELECT w.no, w.id, g.n, g.link FROM writers w CROSS JOIN LATERAL
    (SELECT n, link FROM ${name} p WHERE p.writer = w.no ORDER BY n DESC LIMIT 1) g`
}

/** Runs `work` in a transaction, unless another process is doing the same. */
async function runExclusively(connection: Connection, work: () => Promise<void>): Promise<boolean> {
  const [, , tried] = await connection.send([{ text: 'BEGIN' }, LOCK_LIMIT, TRY_LOCK])
  const isMine = tried?.rows[0]?.mine === true
  try {
    if (isMine) await work()
    await connection.one(isMine ? COMMIT : ROLLBACK)
    return isMine
  } catch (error) {
    if (!connection.isLost) await connection.one(ROLLBACK)
    throw error
  }
}
