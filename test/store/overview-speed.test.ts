import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { describe, expect, it } from 'vitest'
import type { Overview } from '#admin-api/overview'
import type { JournalEvent } from '#kernel/journal/events'
import { createLocalAccess } from '#server/admin/access'
import { callInProcess } from '#server/admin/in-process-client'
import { createOverviewRoutes } from '#server/overview/overview-routes'
import type { Store } from '#store/collet-store'
import { CallCounts } from '#store/rollups/call-counts'
import { ROLLUP_STEPS, summed } from '#store/rollups/rollups'
import { seededRandom } from '../crash/seeded-random.ts'
import { useDatabase } from './databases.ts'
import { openStoreFolder } from './store-folder.ts'

const DAY_MS = 86_400_000
const NOW_MS = 20_000 * DAY_MS
const CALLS = 1_000_000
const TOOLS = 200
const CALLERS = 300
const MAX_MS = 200
const RANGES = ['1h', '24h', '7d', '30d'] as const
const BATCH = 5_000

type Row = readonly [number, string, number, string, string, number, number]

/** What a server has counted after a month of a million calls of many tools and callers, as far as it is still kept. */
function monthOfCounts(): readonly Row[] {
  const random = seededRandom(1)
  const counts = new CallCounts()
  for (let nth = 0; nth < CALLS; nth += 1) {
    const hasFailed = random() < 0.03
    const event = {
      ...{
        type: hasFailed ? 'call.failed' : 'call.succeeded',
        at: NOW_MS - Math.floor(random() * 30 * DAY_MS),
      },
      ...{ record: 'r', tenant: 'default', attempt: 1, durationMs: Math.exp(2 + 4 * random()) },
      principal: `key:caller-${Math.floor(CALLERS * random() ** 2)}`,
      tool: `Toolkit.Tool${Math.floor(TOOLS * random() ** 2)}@1.0.0`,
    } satisfies Record<string, unknown>
    counts.add([event as JournalEvent])
  }
  return summed(counts.rows())
    .filter(({ stepMs, startMs }) => {
      const keptMs = ROLLUP_STEPS.find((step) => step.stepMs === stepMs)?.keptMs ?? 0
      return startMs >= NOW_MS - keptMs
    })
    .map((row) => [row.stepMs, row.kind, row.startMs, row.tenant, row.name, row.calls, row.errors])
}

/** Milliseconds of the quickest of several answers for each range, as `24h 12.3`. */
async function measure(store: Store): Promise<readonly string[]> {
  const clock = { nowMs: () => NOW_MS, monotonicMs: () => performance.now() }
  const routes = createOverviewRoutes(createLocalAccess('operator'), { store, clock, budgets: () => [] })
  const figures: string[] = []
  for (const range of RANGES) {
    const times: number[] = []
    for (let round = 0; round < 5; round += 1) {
      const startedMs = performance.now()
      const answer = (await callInProcess(routes, {
        method: 'GET',
        path: `/admin/overview?range=${range}`,
      })) as Overview
      times.push(performance.now() - startedMs)
      if (range === '30d') expect(answer.calls).toBeGreaterThan(CALLS * 0.99)
      expect(answer.failing_tools).toHaveLength(10)
    }
    expect(Math.min(...times), range).toBeLessThan(MAX_MS)
    figures.push(`${range} ${Math.min(...times).toFixed(1)} ms`)
  }
  return figures
}

describe('the overview of a month of a million calls', () => {
  const rows = monthOfCounts()
  const database = useDatabase('overview')

  it('is read within 200 ms from SQLite', async () => {
    const folder = openStoreFolder(() => NOW_MS)
    const store = folder.open()
    const file = new DatabaseSync(folder.path)
    const insert = file.prepare('INSERT INTO rollups VALUES (?, ?, ?, ?, ?, ?, ?)')
    file.exec('BEGIN')
    for (const row of rows) insert.run(...row)
    file.exec('COMMIT')
    file.close()
    process.stdout.write(`overview, ${rows.length} rows, sqlite: ${(await measure(store)).join(', ')}\n`)
  })

  it('is read within 200 ms from PostgreSQL', async () => {
    const store = await database.open()
    const client = new Client({ connectionString: database.url })
    await client.connect()
    for (let at = 0; at < rows.length; at += BATCH) {
      const batch = rows.slice(at, at + BATCH)
      const columns = [0, 1, 2, 3, 4, 5, 6].map((column) => batch.map((row) => row[column]))
      const text = `INSERT INTO rollups SELECT * FROM
        unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])`
      await client.query(text, columns)
    }
    await client.query('ANALYZE rollups')
    await client.end()
    process.stdout.write(`overview, ${rows.length} rows, postgres: ${(await measure(store)).join(', ')}\n`)
  })
})
