import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JournalHead } from '#kernel/journal/events'
import type { Store } from '#store/collet-store'
import { copyStore, migrateStore, openStore } from '#store/stores'
import { runThrough, sampleCall } from '../contracts/samples.ts'
import { runCollet } from '../e2e/server-process.ts'
import { sized } from '../size.ts'
import { createDatabase, query } from './databases.ts'
import { checkGuarantees, fillStore, readStore } from './filled-store.ts'

const masterKey = Buffer.alloc(32, 7)
let dataFolder: string
let lived: string
let heads: readonly JournalHead[]
let before: Awaited<ReturnType<typeof readStore>>

const open = (url: string) => openStore(url, { dataFolder, masterKey, mode: 'server' })
const sqlite = (name: string) => `sqlite:${join(dataFolder, name)}`

async function withStore<T>(url: string, use: (store: Store) => Promise<T>): Promise<T> {
  const store = await open(url)
  try {
    return await use(store)
  } finally {
    await store.close()
  }
}

async function copy(from: string, to: string, key = masterKey) {
  return await copyStore(from, to, { dataFolder, masterKey: key, onProgress: () => undefined })
}

beforeAll(async () => {
  dataFolder = mkdtempSync(join(tmpdir(), 'collet-copy-'))
  lived = sqlite('lived.db')
  await fillStore(() => open(lived))
  await withStore(lived, async (store) => {
    before = await readStore(store)
    heads = (await store.verify()).heads
  })
})
afterAll(() => rmSync(dataFolder, { recursive: true }))

describe('a copy of a store', () => {
  it('in PostgreSQL answers like the original, continues at its position, and its journal has the old heads', async () => {
    expect(before.states).toEqual(['succeeded', 'succeeded', 'parked', 'parked', 'ambiguous'])
    const target = await createDatabase('copy_lived')
    expect(await copy(lived, target)).toMatchObject({ kind: 'copied', chains: 3 })
    expect(await copy(lived, target)).toMatchObject({ kind: 'already', chains: 3 })
    await withStore(target, async (store) => {
      expect(await readStore(store)).toEqual(before)
      expect(await checkGuarantees(store, heads)).toEqual(['found', 'claimed', 'settled', true])
      await runThrough(store, sampleCall({ record: 'record-6', callId: 'call-6' }))
    })
    // The target was used since, so it is no longer a copy.
    await expect(copy(lived, target)).rejects.toThrow('contains another store')
    await expect(copy(lived, sqlite('other.db'), Buffer.alloc(32, 8))).rejects.toThrow('key does not fit')
    const back = sqlite('back.db')
    expect(await copy(target, back)).toMatchObject({ kind: 'copied', chains: 4 })
    const ends = await withStore(target, readStore)
    expect(await withStore(back, readStore)).toEqual(ends)
  })

  it('is not made while a server uses the source, which can continue afterwards', async () => {
    for (const source of [sqlite('used.db'), await createDatabase('copy_used')]) {
      const store = await open(source)
      await store.claim(sampleCall())
      await expect(copy(source, sqlite('never.db'))).rejects.toThrow(
        `the source is still used by a server: ${hostname()} pid ${process.pid}. Stop the server first`,
      )
      await runThrough(store, sampleCall({ record: 'record-2', callId: 'call-2' }))
      await store.close()
    }
  })

  it('keeps the sequence numbers of an emptied source, and accepts a target that is only prepared', async () => {
    const [source, target] = [sqlite('numbers.db'), await createDatabase('copy_numbers')]
    await withStore(source, async (store) => {
      await store.probe()
    })
    const database = new DatabaseSync(join(dataFolder, 'numbers.db'))
    const columns = '(at, tenant, principal, action, resource, reason, count)'
    database.exec(
      `INSERT INTO denials ${columns} VALUES ${Array(9).fill("(1, 't', 'p', 'a', 'r', 'w', 1)").join()}`,
    )
    database.exec('DELETE FROM denials')
    database.close()
    await migrateStore(target, { dataFolder, masterKey }, 'migrate')
    await copy(source, target)
    const added = await query(
      target,
      `INSERT INTO denials ${columns} VALUES (1, 't', 'p', 'a', 'r', 'w', 1) RETURNING no`,
    )
    expect(added).toEqual([{ no: '10' }])
  })

  it('continues after each kill, cannot be opened before it is complete, and restarts when the source was used', async () => {
    const [source, target] = [sqlite('large.db'), await createDatabase('copy_killed')]
    const calls = sized(1_500, 60_000)
    await withStore(source, async (store) => {
      for (let n = 0; n < calls; n += 500)
        await Promise.all(
          Array.from({ length: 500 }, (_, at) =>
            runThrough(store, sampleCall({ record: `record-${n + at}`, callId: `call-${n + at}` })),
          ),
        )
    })
    const cut = await copyUntil(source, target, 1)
    // It continues with the copied rows, and gets further.
    expect((await copyUntil(source, target, cut.last + 1)).first).toBeGreaterThanOrEqual(cut.last)
    await expect(open(target)).rejects.toThrow(
      'the copy into it is not finished. Run the same collet store copy again',
    )
    await withStore(source, async (store) => {
      await runThrough(store, sampleCall({ record: 'one-more', callId: 'one-more' }))
    })
    expect((await copyUntil(source, target, 1)).first).toBe(0)
    const { code, stdout, stderr } = await runCollet(['store', 'copy', source, target], {
      env: { COLLET_KEY: masterKey.toString('base64') },
    })
    expect([code, stdout], stderr).toEqual([0, expect.stringContaining('counted and checked')])
    expect(await query(target, 'SELECT CAST(count(*) AS INTEGER) AS calls FROM calls')).toEqual([
      { calls: calls + 1 },
    ])
    const found = await withStore(target, async (store) => await store.findByRecord(`record-${calls - 1}`))
    expect(found?.state).toBe('succeeded')
    expect((await withStore(target, async (store) => await store.verify())).ok).toBe(true)
  })
})

/** Kills `collet store copy` after this many rows; returns the first and the last reported count. */
async function copyUntil(from: string, to: string, leastRows: number) {
  const file = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
  const flags = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
  const child = spawn(process.execPath, [...flags, file, 'store', 'copy', from, to], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, COLLET_KEY: masterKey.toString('base64') },
  })
  const ended = once(child, 'close')
  const rows: number[] = []
  for await (const line of createInterface({ input: child.stderr })) {
    const [, seen] = /^\d+ % (\d+) of \d+ rows/.exec(line) ?? []
    if (seen === undefined) throw new Error(`it printed: ${line}`)
    rows.push(Number(seen))
    if (Number(seen) >= leastRows) break
  }
  child.kill('SIGKILL')
  await ended
  return { first: rows[0] ?? -1, last: rows.at(-1) ?? -1 }
}
