import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  attemptAt,
  DAY_MS,
  eventsOf,
  failure,
  gistOfRun,
  POLICY,
  purgeAll,
  runThrough,
  sampleCall,
  sampleSession,
  scopeAt,
} from '../contracts/samples.ts'
import { StoreFolder } from './store-folder.ts'

const SCOPE = scopeAt('run-a')
const { run: RUN } = SCOPE

let folder: StoreFolder
beforeEach(() => {
  folder = new StoreFolder()
})
afterEach(() => folder.remove())

function killed(child: ChildProcess): Promise<unknown> {
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  return gone
}

describe('one run, several writers', () => {
  it('rule 16, OWP-99: two stores append to one run without gaps', async () => {
    const stores = [folder.open(), folder.open()]
    await Promise.all(
      stores.flatMap((store, index) =>
        Array.from({ length: 30 }, (_, nth) =>
          runThrough(store, sampleCall({ record: `record-${index}-${nth}`, scope: SCOPE })),
        ),
      ),
    )
    for (const store of stores) expect(await eventsOf(store, RUN)).toHaveLength(120)
    expect(stores[0]?.verify()).toMatchObject({ ok: true, chains: 2 })
  })

  it('rule 16, OWP-41: processes append without gaps too, and sessions of a killed one are closed by the next', {
    timeout: 60_000,
  }, async () => {
    const store = folder.open()
    await store.probe()
    const file = fileURLToPath(new URL('run-writer-process.ts', import.meta.url))
    const children = ['left', 'right'].map((name) => {
      const key = folder.masterKey.toString('base64')
      const flags = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
      const child = spawn(process.execPath, [...flags, file, folder.path, key, name, '20'], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      return { child, ready: once(child.stdout, 'data') }
    })
    try {
      await runThrough(store, sampleCall({ record: 'here', scope: SCOPE }))
      await Promise.all(children.map(({ ready }) => ready))
      expect(await store.recover(5_000)).toEqual({ deadWriters: 0, ambiguous: 0 })
    } finally {
      await Promise.all(children.map(({ child }) => killed(child)))
    }
    expect(await eventsOf(store, RUN)).toHaveLength(2 + 2 * 42)
    expect(await store.recover(5_000)).toEqual({ deadWriters: 2, ambiguous: 0 })
    const events = await gistOfRun(store, RUN)
    for (const name of ['left', 'right']) {
      expect(events.filter((event) => event.includes(` ${name} `) || event.includes(`ses_${name}`))).toEqual([
        `opened ses_${name}`,
        `called ${name} 1`,
        `returned ${name} 1 session_lost`,
        `closed ses_${name} failed`,
      ])
    }
    expect((await store.findRun(SCOPE))?.open).toBe(0)
    expect(store.verify()).toMatchObject({ ok: true, chains: 3 })
  })
})

describe('the content of the files', () => {
  it('rule 15: neither call ids, run ids nor hashes of arguments are in the clear', async () => {
    const store = folder.open()
    const argsHash = 'c0ffee42'.repeat(8)
    const scope = store.digest('CLEAR-RUN')
    const secret = {
      callId: 'CLEAR-CALL',
      argsHash,
      scope: scopeAt('CLEAR-RUN', { run: scope }),
      userId: 'CLEAR-USER',
    }
    const named = sampleCall({ ...secret, record: 'named' })
    const own = sampleCall({
      ...secret,
      record: 'own',
      scope: undefined,
      session: { sessionId: 'ses_1', isOwn: true },
    })
    await store.openSession(sampleSession('ses_2', { scope: secret.scope }))
    const alone = sampleCall({ ...secret, record: 'alone', scope: undefined })
    for (const call of [named, own, alone]) {
      await store.claim(call)
      const end = { state: 'released', outcome: failure(true), atMs: 2_000 } as const
      await store.finish({ run: attemptAt(call, 1), ...end })
      const previous = await store.find(call)
      if (previous === undefined) throw new Error('no call')
      const session = call.session === undefined ? undefined : { sessionId: 'ses_3', isOwn: true }
      await store.reclaim(previous, { session, atMs: 3_000 })
    }
    await store.endRun(secret.scope, 4_000)
    expect((await eventsOf(store, 'own'))[1]).toMatchObject({ call: { callId: 'CLEAR-CALL', argsHash } })
    await folder.leaveBehind(store)
    await folder.open().recover(5_000)
    const at = dirname(folder.path)
    const bytes = readdirSync(at, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'))
      .join('')
    expect(bytes).toContain('ses_3')
    expect(bytes).toContain('session_lost')
    for (const text of ['CLEAR-', argsHash, Buffer.from(argsHash, 'hex').toString('latin1')]) {
      expect(bytes.includes(text), text).toBe(false)
    }
  })
})

describe('purging', () => {
  it('rule 13: an ambiguous call and its run are never purged', async () => {
    const dead = folder.open()
    await dead.claim(sampleCall())
    await dead.claim(sampleCall({ record: 'named', scope: SCOPE }))
    await folder.leaveBehind(dead)
    const store = folder.open()
    await store.recover(5_000)
    const late = 5_000 + 2 * POLICY.journalMs
    await purgeAll(store, late)
    expect(await gistOfRun(store, 'record-1')).toEqual(['called record-1 1', 'returned record-1 1 ambiguous'])
    expect(await gistOfRun(store, RUN)).toEqual(['called named 1', 'returned named 1 ambiguous'])
    const settlement = { as: 'failed', valueJson: undefined, error: undefined, who: 'op', why: 'x' } as const
    for (const record of ['record-1', 'named']) await store.settle({ ...settlement, record, atMs: late })
    await purgeAll(store, late)
    expect(store.findRun(SCOPE)).toBeUndefined()
    expect(store.findRun({ tenant: 'default', run: 'record-1' })).toBeUndefined()
    expect((await store.verify()).ok).toBe(true)
  })

  it('rule 13: while own runs are being purged, their keys stay used', async () => {
    const store = folder.open()
    const calls = Array.from({ length: 150 }, (_, index) =>
      sampleCall({ record: `record-${index}`, session: { sessionId: `ses_${index}`, isOwn: true } }),
    )
    await Promise.all(calls.map((call) => runThrough(store, call)))
    const over = 1_001 + POLICY.journalMs
    let hasMore = true
    while (hasMore) {
      hasMore = await store.purge(over, POLICY)
      for (const call of calls) {
        const isTaken = store.find(call) !== undefined
        const hasRun = store.findRun({ tenant: 'default', run: call.record }) !== undefined
        if (!isTaken) expect({ record: call.record, hasRun }).toEqual({ record: call.record, hasRun: false })
      }
    }
    expect(store.list({ limit: 10 })).toEqual({ calls: [] })
    expect(store.findRun({ tenant: 'default', run: 'record-149' })).toBeUndefined()
  })

  it('rule 13: a run that outlives the journal still lists calls whose text is purged', async () => {
    const store = folder.open()
    await store.openSession(sampleSession('ses_1'))
    await runThrough(store, sampleCall({ tier: 'read', scope: SCOPE }))
    await purgeAll(store, 1_001 + POLICY.journalMs)
    await purgeAll(store, 1_001 + POLICY.journalMs + DAY_MS)
    expect(await gistOfRun(store, RUN)).toEqual([
      'opened ses_1',
      'called record-1 1',
      'returned record-1 1 ok',
    ])
    expect((await eventsOf(store, RUN))[1]).toMatchObject({ call: { callId: 'record-1' } })
    await store.closeSession({ tenant: 'default', sessionId: 'ses_1' }, 'completed', 1e12)
    expect((await gistOfRun(store, RUN)).at(-1)).toBe('closed ses_1 completed')
  })
})
