import {
  type CommitGroup,
  type Row,
  type SqlValue,
  type Steps,
  type StoreContext,
  statements,
} from '#kernel/store/engine'
import type { StoreModule } from '#kernel/store/module'
import { integer, optionalInteger, text } from '#kernel/store/rows'
import { mapped } from '#store/steps'
import { CallCounts, ROLLUP_KINDS, type RollupKind, type RollupRow } from './call-counts.ts'

/**
 * Rollups: calls and rejected requests counted by minute, quarter of an hour and three hours, for each tenant. The overview and alerts read
 * them. A process counts the events of its own commits in memory and writes the counts together with the position in its chain that
 * they reach. Invariant: each journal group is counted at most once, and a group that a crash left uncounted is counted
 * later from the journal.
 */

const { get, all, write } = statements<keyof typeof queries>()

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

/** Lengths of the intervals, and how long each is kept; none is kept longer than the journal. */
export const ROLLUP_STEPS = [
  { stepMs: MINUTE_MS, keptMs: 2 * DAY_MS },
  { stepMs: 15 * MINUTE_MS, keptMs: 8 * DAY_MS },
  { stepMs: 180 * MINUTE_MS, keptMs: Number.MAX_SAFE_INTEGER },
] as const

/** Intervals of `stepMs` that begin in a time range; without a tenant, of all tenants. */
export interface RollupQuery {
  readonly stepMs: (typeof ROLLUP_STEPS)[number]['stepMs']
  readonly sinceMs: number
  readonly untilMs: number
  readonly tenant?: string | undefined
}

interface TopQuery extends RollupQuery {
  readonly kind: RollupKind
  readonly by: 'calls' | 'errors'
  readonly limit: number
}

/** Counts that a process has not written yet, of the groups from after `after` up to `last`. */
interface Unwritten {
  readonly writer: number
  readonly after: number
  last: number
  readonly counts: CallCounts
}

type CountedGroups = Pick<Unwritten, 'writer' | 'after' | 'last'> & { readonly rows: readonly StepRow[] }

export function openRollups({ lane, read, snapshot, chain, engine }: StoreContext) {
  let unwritten: Unwritten | undefined
  let turn: Promise<unknown> = Promise.resolve()
  const writeCounts = lane(
    () => ROLLUPS,
    () => ROLLUPS,
    addCounted,
  )
  const openChains = read(uncountedChains)
  const groupsAfter = read((writer: number, after: number) => all('groupsOf', writer, after, GROUPS_AT_ONCE))
  /** One write at a time, so that the rows of two writes are never locked in a different order than by another process. */
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const result = turn.then(work)
    turn = result.catch(() => undefined)
    return result
  }
  const readChain = async (
    writer: number,
    from: number,
    until: number,
    stopped?: AbortSignal,
  ): Promise<void> => {
    for (let after = from; after < until && stopped?.aborted !== true; ) {
      const groups = (await groupsAfter(writer, after)).filter((row) => integer(row, 'n') <= until)
      const counts = new CallCounts()
      for (const group of groups) counts.add(JSON.parse(text(group, 'events')))
      const last = groups.length === 0 ? until : integer(groups.at(-1) ?? {}, 'n')
      // Another process may count the same chain; then its position has moved.
      if (!(await writeCounts({ writer, after, last, rows: summed(counts.rows()) }))) return
      after = last
    }
  }
  return {
    /** Counts the calls of this process from now on. */
    collect(): void {
      chain.onCommitted = (events, n) => {
        const writer = chain.no
        if (unwritten === undefined || unwritten.writer !== writer || unwritten.last !== n - 1) {
          // Counts that were not written before a gap are read from the journal.
          unwritten = { writer, after: n - 1, last: n, counts: new CallCounts() }
        }
        unwritten.last = n
        unwritten.counts.add(events)
      }
    },
    /** Writes what this process has counted. After a failure, `catchUp` counts the same groups from the journal. */
    flush: () =>
      inTurn(async () => {
        if (unwritten === undefined || unwritten.counts.isEmpty) return
        const { writer, after, last, counts } = unwritten
        unwritten = undefined
        await writeCounts({ writer, after, last, rows: summed(counts.rows()) })
      }),
    /** Counts groups that no process has counted: those of processes that died, and those of this process that it could not write. */
    catchUp: (stopped?: AbortSignal) =>
      inTurn(async () => {
        for (const { no, writer, counted, last, hasEnded } of await openChains()) {
          if (no === chain.no) await readChain(no, counted, unwritten?.after ?? last, stopped)
          else if (hasEnded || !(await engine.isAlive(writer))) await readChain(no, counted, last, stopped)
        }
      }),
    /** Counts of the given kinds per interval of `bucketMs`, from `sinceMs` on. */
    series: snapshot(
      ({
        bucketMs,
        kinds,
        ...range
      }: RollupQuery & { readonly bucketMs: number; readonly kinds: readonly RollupKind[] }) =>
        seriesOf(kinds, range, bucketMs),
    ),
    /** Names with the most calls or errors. */
    top: snapshot(({ kind, by, limit, ...range }: TopQuery) =>
      mapped(all(by === 'errors' ? 'topErrors' : 'topCalls', ...rangeValues(kind, range), limit), (rows) =>
        rows.map((row) => ({ tenant: text(row, 'tenant'), name: text(row, 'name'), ...countsIn(row) })),
      ),
    ),
    /** Calls and errors of one name, or of all names. */
    total: read(
      ({ kind, name, ...range }: RollupQuery & { readonly kind: RollupKind; readonly name?: string }) =>
        mapped(get('totalOf', ...rangeValues(kind, range), name ?? null, name ?? null), (row) =>
          countsIn(row ?? {}),
        ),
    ),
  }
}

export type RollupStore = ReturnType<typeof openRollups>

const ROLLUPS = 'rollups'
/** A change that reads and counts more groups would delay the calls that wait for their commit. */
const GROUPS_AT_ONCE = 20

/** The position moves only from where these counts begin, so that no group is counted twice; otherwise nothing is written. */
function* addCounted(_group: CommitGroup, { writer, after, last, rows }: CountedGroups): Steps<boolean> {
  yield* write('openPosition', writer)
  if ((yield* write('movePosition', last, writer, after)) === 0) return false
  yield* addRollups(rows)
  return true
}

export function* addRollups(rows: readonly StepRow[]): Steps<void> {
  for (let at = 0; at < rows.length; at += ROWS_AT_ONCE) {
    const values = Array.from({ length: ROWS_AT_ONCE }, (_, nth) => valuesOf(rows[at + nth]))
    yield* write('addRollups', ...values.flat())
  }
}

interface StepRow extends RollupRow {
  readonly stepMs: number
}

/** Sums the minutes to intervals of every length, in the order of their keys: all processes lock the rows in this order. */
export function summed(minutes: Iterable<RollupRow>): readonly StepRow[] {
  const sums = new Map<string, StepRow>()
  for (const row of minutes)
    for (const { stepMs } of ROLLUP_STEPS) {
      const startMs = row.startMs - (row.startMs % stepMs)
      const key = JSON.stringify([stepMs, row.kind, startMs, row.tenant, row.name])
      const { calls = 0, errors = 0 } = sums.get(key) ?? {}
      sums.set(key, { ...row, stepMs, startMs, calls: calls + row.calls, errors: errors + row.errors })
    }
  return [...sums].sort(([left], [right]) => (left < right ? -1 : 1)).map(([, sum]) => sum)
}

const ROWS_AT_ONCE = 50
const NO_ROW = [null, null, null, null, null, null, null]

function valuesOf(row: StepRow | undefined): readonly SqlValue[] {
  if (row === undefined) return NO_ROW
  return [row.stepMs, row.kind, row.startMs, row.tenant, row.name, row.calls, row.errors]
}

function* uncountedChains() {
  return (yield* all('uncountedChains')).flatMap((row) => {
    const [counted, last] = [integer(row, 'counted'), optionalInteger(row, 'last') ?? 0]
    const hasEnded = optionalInteger(row, 'ended_at') !== undefined
    return last > counted
      ? [{ no: integer(row, 'no'), writer: text(row, 'id'), counted, last, hasEnded }]
      : []
  })
}

function* seriesOf(kinds: readonly RollupKind[], range: RollupQuery, bucketMs: number) {
  const counted: RollupBucket[] = []
  for (const kind of kinds) {
    const rows = yield* all('rollupSeries', range.sinceMs, bucketMs, ...rangeValues(kind, range))
    for (const row of rows)
      counted.push({ kind, bucket: integer(row, 'bucket'), name: text(row, 'name'), ...countsIn(row) })
  }
  return counted
}

/** Calls with an equal name that ended in one interval. */
export interface RollupBucket extends Pick<RollupRow, 'kind' | 'name' | 'calls' | 'errors'> {
  /** Index of the interval, from 0. */
  readonly bucket: number
}

function rangeValues(
  kind: RollupKind,
  { stepMs, sinceMs, untilMs, tenant }: RollupQuery,
): readonly SqlValue[] {
  return [stepMs, kind, sinceMs, untilMs, tenant ?? null, tenant ?? null]
}

function countsIn(row: Row) {
  return { calls: optionalInteger(row, 'calls') ?? 0, errors: optionalInteger(row, 'errors') ?? 0 }
}

const IN_RANGE = `step_ms = ? AND kind = ? AND begins_at >= ? AND begins_at < ? AND (CAST(? AS TEXT) IS NULL OR tenant = ?)`
const SUMS = 'CAST(sum(calls) AS BIGINT) AS calls, CAST(sum(errors) AS BIGINT) AS errors'
const ROWS = Array(ROWS_AT_ONCE).fill('(?, ?, ?, ?, ?, ?, ?)').join(', ')

/** Rows of one step, of any kind, that began before a time. */
const OF_STEP = `(step_ms = ? AND kind IN (${ROLLUP_KINDS.map((kind) => `'${kind}'`).join(', ')}) AND begins_at < ?)`

const queries = {
  openPosition: 'INSERT INTO counted_groups (writer, n) VALUES (?, 0) ON CONFLICT (writer) DO NOTHING',
  movePosition: 'UPDATE counted_groups SET n = ? WHERE writer = ? AND n = ?',
  /** Rows that are padded with null are left out. */
  addRollups: `INSERT INTO rollups (step_ms, kind, begins_at, tenant, name, calls, errors)
    SELECT CAST(column1 AS BIGINT), column2, CAST(column3 AS BIGINT), column4, column5, CAST(column6 AS BIGINT), CAST(column7 AS BIGINT)
    FROM (VALUES ${ROWS}) AS v WHERE column2 IS NOT NULL
    ON CONFLICT (step_ms, kind, begins_at, tenant, name)
    DO UPDATE SET calls = rollups.calls + excluded.calls, errors = rollups.errors + excluded.errors`,
  uncountedChains: `SELECT w.no, w.id, w.ended_at, coalesce(c.n, 0) AS counted,
      (SELECT max(n) FROM commit_groups WHERE writer = w.no) AS last
    FROM writers w LEFT JOIN counted_groups c ON c.writer = w.no ORDER BY w.no`,
  rollupSeries: `SELECT (begins_at - CAST(? AS BIGINT)) / CAST(? AS BIGINT) AS bucket, name, ${SUMS}
    FROM rollups WHERE ${IN_RANGE} GROUP BY 1, 2`,
  topCalls: `SELECT tenant, name, ${SUMS} FROM rollups WHERE ${IN_RANGE} GROUP BY 1, 2 ORDER BY calls DESC, 1, 2 LIMIT ?`,
  topErrors: `SELECT tenant, name, ${SUMS} FROM rollups WHERE ${IN_RANGE} GROUP BY 1, 2 HAVING sum(errors) > 0
    ORDER BY errors DESC, 1, 2 LIMIT ?`,
  totalOf: `SELECT ${SUMS} FROM rollups WHERE ${IN_RANGE} AND (CAST(? AS TEXT) IS NULL OR name = ?)`,
  deleteRollups: `DELETE FROM rollups WHERE (step_ms, kind, begins_at, tenant, name) IN
    (SELECT step_ms, kind, begins_at, tenant, name FROM rollups WHERE ${ROLLUP_STEPS.map(() => OF_STEP).join(' OR ')} LIMIT ?)`,
} as const

/** `counted_groups`: the last group of each writer's chain that `rollups` contains. */
const tables = `
CREATE TABLE rollups (
  step_ms INTEGER NOT NULL,
  kind TEXT NOT NULL,
  begins_at INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  calls INTEGER NOT NULL,
  errors INTEGER NOT NULL,
  PRIMARY KEY (step_ms, kind, begins_at, tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE counted_groups (
  writer INTEGER PRIMARY KEY,
  n INTEGER NOT NULL
) STRICT;
`

export const rollupModule: StoreModule = {
  name: 'rollups',
  ...{ tables, queries },
  *forget({ nowMs, policy, limit }) {
    const ends = ROLLUP_STEPS.flatMap(({ stepMs, keptMs }) => [
      stepMs,
      nowMs - Math.min(keptMs, policy.journalMs),
    ])
    return yield* write('deleteRollups', ...ends, limit)
  },
}
