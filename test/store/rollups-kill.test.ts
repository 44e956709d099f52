import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Store } from '#store/collet-store'
import { openStore } from '#store/stores'
import { createDatabase, query } from './databases.ts'

const masterKey = randomBytes(32)
const ROUNDS = 3
const MIN_CALLS = 200

describe.each(['sqlite', 'postgres'] as const)('counts of calls on %s', (engine) => {
  let folder = ''
  let url = ''
  const children = new Set<ChildProcess>()

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'collet-rollups-'))
    url = engine === 'sqlite' ? `sqlite:${join(folder, 'collet.db')}` : await createDatabase('rollups')
  })
  afterEach(async () => {
    for (const child of children) await kill(child)
    rmSync(folder, { recursive: true })
  })

  async function startReplica(): Promise<void> {
    const file = fileURLToPath(new URL('rollups-process.ts', import.meta.url))
    const flags = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
    const args = [file, url, masterKey.toString('base64')]
    const child = spawn(process.execPath, [...flags, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
    children.add(child)
    await once(child.stdout ?? child, 'data')
  }

  async function kill(child: ChildProcess): Promise<void> {
    children.delete(child)
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }

  const open = () => openStore(url, { dataFolder: folder, masterKey, mode: 'server' })
  const range = { sinceMs: 0, untilMs: Number.MAX_SAFE_INTEGER }

  async function recorded(store: Store): Promise<number> {
    let [calls, before] = [0, undefined as number | undefined]
    do {
      const page = await store.tally({ ...range, bucketMs: Number.MAX_SAFE_INTEGER, before })
      calls += page.rows.reduce((sum, row) => sum + row.calls, 0)
      before = page.next
    } while (before !== undefined)
    return calls
  }

  const counted = async (store: Store, stepMs: 60_000 | 10_800_000): Promise<number> =>
    (await store.rollups.total({ ...range, stepMs, kind: 'tool' })).calls

  it('never exceed the recorded calls, and equal them after the next start, although replicas are killed', async () => {
    const store = await open()
    try {
      for (let round = 1; round <= ROUNDS; round += 1) {
        await Promise.all([startReplica(), startReplica()])
        await expect
          .poll(() => counted(store, 60_000), { timeout: 60_000 })
          .toBeGreaterThan(round * MIN_CALLS)
        for (const child of children) await kill(child)
        // No process waits for leases here.
        if (engine === 'postgres') await query(url, 'UPDATE writers SET lease_until = 1')
        const calls = await recorded(store)
        expect(await counted(store, 60_000)).toBeLessThanOrEqual(calls)
        await store.rollups.catchUp()
        expect([await counted(store, 60_000), await counted(store, 10_800_000)]).toEqual([calls, calls])
        await store.rollups.catchUp()
        expect(await counted(store, 60_000)).toBe(calls)
      }
    } finally {
      await store.close()
    }
  })
})
