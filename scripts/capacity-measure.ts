import { randomBytes, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Client } from 'pg'
import type { Store } from '#store/collet-store'
import { openPostgresStore } from '#store/postgres/open'
import { createDatabase, stopDatabase } from '../bench/database.ts'
import { attemptAt, sampleCall, success } from '../test/contracts/samples.ts'
import type { Figures } from './capacity.ts'

/**
 * Measures what one call costs PostgreSQL, for `scripts/capacity.ts --measure`. Invariant: the database waits for the
 * disk, as in production.
 */

/** Sizes of the measured calls: the input of the caller and the output of the tool. */
export const SAMPLE = { inputBytes: 300, outputBytes: 700 }

const DAY_MS = 86_400_000
const CLOCK_TICK_US = 10_000
/** Retention deletes the results of this many calls in a step, then pauses. */
const CALLS_PER_STEP = 200
const PAUSE_MS = 20
const KEPT = { resultsMs: DAY_MS, journalMs: 12 * DAY_MS }

const input = JSON.stringify({ text: 'x'.repeat(SAMPLE.inputBytes - 11) })
const output = JSON.stringify('y'.repeat(SAMPLE.outputBytes - 2))

/** Measures everything on its own PostgreSQL, which waits for the disk, or on that of `DATABASE_URL`. */
export async function measure(calls: number, say: (line: string) => void): Promise<Figures> {
  const url = process.env.DATABASE_URL ?? (await createDatabase())
  const client = new Client({ connectionString: url })
  await client.connect()
  let nowMs = Date.now()
  const store = await openPostgresStore({ url, masterKey: randomBytes(32), nowMs: () => nowMs })
  const subject = new Subject(client, store, () => nowMs)
  try {
    await store.probe()
    // After the first day, so that the journal has a partition, as it has from the second day on.
    await store.purge(nowMs, KEPT)
    nowMs += DAY_MS
    await subject.run('pure', 32, calls / 10)

    const alone = await subject.run('pure', 1, calls / 20)
    const group = await subject.run('pure', 32, calls)
    const before = await subject.bytes()
    await subject.run('pure', 32, calls)
    const pureBytes = subtract(await subject.bytes(), before, calls)
    const write = await subject.run('write', 32, calls)
    say(
      `pure, one at a time: ${alone.perSecond} calls/s, backend ${alone.backendUs} µs a call, WAL ${alone.walBytes} bytes a call`,
    )
    say(
      `pure, groups of 32: ${group.perSecond} calls/s, backend ${group.backendUs} µs a call, WAL ${group.walBytes} bytes a call`,
    )
    say(
      `write, groups of 32 (claim and outcome): ${write.perSecond} calls/s, backend ${write.backendUs} µs a call, WAL ${write.walBytes} bytes a call`,
    )
    say(
      `at rest: ${pureBytes.calls} bytes a call in calls and its indexes, ${pureBytes.journal} in the journal with inputs and outcomes`,
    )

    const serialized = await subject.serialized(calls / 20)
    say(`serialized changes: ${serialized.perSecond}/s, backend ${serialized.backendUs} µs a change`)
    const connections = await subject.connections()
    say(`connections of a replica: ${connections}`)

    nowMs += 2 * DAY_MS
    const purged = await subject.purge()
    const after = await subject.bytes()
    const journalBytes = Math.round(after.journalLive / purged.callsEver)
    say(
      `deleting results: ${purged.perSecond} calls/s, ${purged.backendUs} µs of the backend a call, WAL ${purged.walBytes} bytes a call`,
    )
    say(`the journal after that: ${journalBytes} bytes a call`)
    nowMs += 20 * DAY_MS
    const dropped = await subject.dropPartition()
    say(`dropping a partition: ${dropped.groups} groups in ${dropped.milliseconds} ms`)

    const perGroup = Math.max(0, Math.round((alone.backendUs - group.backendUs) * (32 / 31)))
    return {
      groupUs: perGroup,
      pureUs: Math.round(group.backendUs - perGroup / 32),
      writeUs: Math.round(write.backendUs - (2 * perGroup) / 32),
      pureWal: group.walBytes,
      writeWal: write.walBytes,
      callBytes: pureBytes.calls,
      resultBytes: pureBytes.journal,
      journalBytes,
      deleteUs: purged.backendUs,
      deleteWal: purged.walBytes,
      serializedUs: serialized.backendUs,
      connections,
    }
  } finally {
    await store.close()
    await client.end()
    await stopDatabase()
  }
}

interface Spent {
  readonly perSecond: number
  readonly backendUs: number
  readonly walBytes: number
}

interface Bytes {
  readonly calls: number
  readonly journal: number
  /** Size of the journal, without what vacuum may free. */
  readonly journalLive: number
}

function subtract(after: Bytes, before: Bytes, calls: number): Bytes {
  return {
    calls: Math.round((after.calls - before.calls) / calls),
    journal: Math.round((after.journal - before.journal) / calls),
    journalLive: 0,
  }
}

class Subject {
  readonly #client: Client
  readonly #store: Store
  readonly #nowMs: () => number
  #calls = 0

  constructor(client: Client, store: Store, nowMs: () => number) {
    this.#client = client
    this.#store = store
    this.#nowMs = nowMs
  }

  /** Runs calls, always `width` at once, which makes commit groups of that size. */
  async run(tier: 'pure' | 'write', width: number, calls: number): Promise<Spent> {
    return await this.#spend(calls, async () => {
      const laps: number[] = []
      for (let done = 0; done < calls; done += width) {
        await lap(laps, async () => {
          await Promise.all(Array.from({ length: width }, () => this.#call(tier)))
        })
      }
      this.#calls += calls
      return (width / quick(laps)) * 1_000
    })
  }

  /** Changes that read before they write run one after another, across all processes. */
  async serialized(changes: number): Promise<Spent> {
    const limit = { calls: 2 ** 40, milliseconds: 2 ** 40, cost: 2 ** 40 }
    const wanted = { calls: 10, milliseconds: 10, cost: 10 }
    const window = { tenant: 'default', principal: 'key:a', lengthMs: DAY_MS, startMs: 0 }
    return await this.#spend(changes, async () => {
      const laps: number[] = []
      for (let nth = 0; nth < changes; nth += 1) {
        await lap(laps, async () => {
          await this.#store.budgets.lease(window, wanted, limit, nth)
        })
      }
      return 1_000 / quick(laps)
    })
  }

  async connections(): Promise<number> {
    await this.#store.find({ tenant: 'default', record: 'none' })
    await this.#store.readJournal([], 1)
    const { rows } = await this.#client.query(
      'SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    )
    return Number(rows[0]?.n)
  }

  /** Purges until nothing is left. */
  async purge(): Promise<Spent & { readonly callsEver: number }> {
    const { rows } = await this.#client.query('SELECT count(*) AS n FROM calls WHERE expired = 0')
    const calls = Number(rows[0]?.n)
    const spent = await this.#spend(calls, async () => {
      const laps: number[] = []
      for (let hasMore = true; hasMore; ) {
        await lap(laps, async () => {
          hasMore = await this.#store.purge(this.#nowMs(), KEPT)
        })
      }
      return (CALLS_PER_STEP / (quick(laps) + PAUSE_MS)) * 1_000
    })
    return { ...spent, callsEver: this.#calls }
  }

  async dropPartition(): Promise<{ readonly groups: number; readonly milliseconds: number }> {
    const count = async () =>
      Number((await this.#client.query('SELECT count(*) AS n FROM commit_groups')).rows[0]?.n)
    const before = await count()
    const startMs = performance.now()
    while (await this.#store.purge(this.#nowMs(), KEPT));
    const milliseconds = Math.round(performance.now() - startMs)
    return { groups: before - (await count()), milliseconds }
  }

  async bytes(): Promise<Bytes> {
    await this.#client.query('VACUUM')
    const { rows } = await this.#client.query(`SELECT pg_total_relation_size('calls') AS calls,
      (SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'commit_groups'::regclass) AS journal,
      (SELECT sum(octet_length(events) + coalesce(octet_length(callers), 0) + coalesce(octet_length(payload), 0) + 160)
        FROM commit_groups) AS live`)
    const [row] = rows
    return { calls: Number(row?.calls), journal: Number(row?.journal), journalLive: Number(row?.live) }
  }

  async #call(tier: 'pure' | 'write'): Promise<void> {
    const record = randomUUID().replaceAll('-', '').slice(0, 24)
    const atMs = this.#nowMs()
    const call = sampleCall({ record, callId: record, tier, inputJson: input, atMs })
    const finished = { state: 'succeeded' as const, outcome: success(output), atMs }
    if (tier === 'pure') {
      await this.#store.insertFinished(call, finished)
      return
    }
    await this.#store.claim(call)
    await this.#store.finish({ run: attemptAt(call, 1), ...finished })
  }

  /** `work` returns the calls it made per second. */
  async #spend(calls: number, work: () => Promise<number>): Promise<Spent> {
    const [cpu, wal] = [await this.#backendUs(), await this.#wal()]
    const perSecond = Math.round(await work())
    const spent = { cpu: (await this.#backendUs()) - cpu, wal: (await this.#wal()) - wal }
    return {
      perSecond,
      backendUs: Math.round(spent.cpu / calls),
      walBytes: Math.round(spent.wal / calls),
    }
  }

  async #wal(): Promise<number> {
    const { rows } = await this.#client.query("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS bytes")
    return Number(rows[0]?.bytes)
  }

  /** CPU of all processes of this database, if they are on this machine; in steps of 10 ms. */
  async #backendUs(): Promise<number> {
    const { rows } = await this.#client.query<{ pid: number }>(
      'SELECT pid FROM pg_stat_activity WHERE datname = current_database()',
    )
    return rows.reduce((sum, { pid }) => sum + ticksOf(pid) * CLOCK_TICK_US, 0)
  }
}

async function lap(laps: number[], work: () => Promise<void>): Promise<void> {
  const startMs = performance.now()
  await work()
  laps.push(performance.now() - startMs)
}

/** The fastest tenth: the cost on an otherwise idle machine. */
function quick(laps: readonly number[]): number {
  return laps.toSorted((left, right) => left - right)[Math.floor(laps.length / 10)] ?? 1
}

function ticksOf(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    return Number(fields[11]) + Number(fields[12])
  } catch {
    return 0
  }
}
