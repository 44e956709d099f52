import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { StoreError } from '#kernel/base/errors'
import type { Store } from '#store/collet-store'
import { Lease } from '#store/postgres/lease'
import { attemptAt, sampleCall, success } from '../contracts/samples.ts'
import { query, useDatabase, useProxy } from './databases.ts'

/** Long enough that a busy machine renews in time, short enough that a test can wait for its end. */
const LEASE_MS = 1_500
const LIMIT = { timeout: 30_000, interval: 20 }

const database = useDatabase('lease', { leaseMs: LEASE_MS })
const network = useProxy(database)

const END_LEASES = 'UPDATE writers SET lease_until = 1'

const finishOf = (record: string) => ({
  run: attemptAt(sampleCall({ record }), 1),
  state: 'succeeded' as const,
  outcome: success('1'),
  atMs: 2_000,
})

async function stateOf(store: Store, record: string): Promise<string | undefined> {
  return (await store.find(sampleCall({ record })))?.state
}

describe('rule 18: a writer whose lease ran out', () => {
  it('commits nothing; its process continues as another writer, and its calls are left to recovery', async () => {
    const [store, other] = [await database.open(), await database.open()]
    await store.claim(sampleCall({ record: 'before' }))
    const { writer } = store
    await query(database.url, END_LEASES)
    expect(await store.finish(finishOf('before'))).toMatchObject({
      kind: 'found',
      record: { state: 'running' },
    })
    expect(store.writer).not.toBe(writer)
    expect(store.mayStart(writer)).toBe(false)
    expect(await store.claim(sampleCall({ record: 'after' }))).toMatchObject({ kind: 'claimed' })
    expect(store.mayStart(store.writer)).toBe(true)
    await store.recordLate(attemptAt(sampleCall({ record: 'before' }), 1), success('1'), 2_000)
    // The store does not declare its old writer dead at once, because others may have missed the same renewal.
    expect(await store.isWriterAlive(writer)).toBe(true)
    expect(await other.recover(5_000)).toEqual({ deadWriters: 1, ambiguous: 1 })
    expect(await stateOf(other, 'before')).toBe('ambiguous')
    expect(await stateOf(other, 'after')).toBe('running')
    const late = (await other.readJournal([], 100)).flatMap(({ events }) => events)
    expect(late.map(({ type }) => type)).toContain('call.late')
    expect(await other.verify()).toMatchObject({ ok: true, chains: 3 })
  })

  it('stays dead, even if the clock goes back', async () => {
    const [store, other] = [await database.open(), await database.open()]
    await store.claim(sampleCall())
    const { writer } = store
    await query(database.url, END_LEASES)
    await other.recover(5_000)
    expect(await other.isWriterAlive(writer)).toBe(false)
    expect(await store.finish(finishOf('record-1'))).toMatchObject({ record: { state: 'ambiguous' } })
  })

  it('is dead too if its main thread was blocked for that long', async () => {
    const store = await database.open({ leaseMs: 600 })
    await store.claim(sampleCall())
    const { writer } = store
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_300)
    expect(store.mayStart(writer)).toBe(false)
    expect(await store.finish(finishOf('record-1'))).toMatchObject({ kind: 'found' })
    expect(store.writer).not.toBe(writer)
  })

  it('starts nothing once a renewal is overdue, and becomes ready again as another writer', async () => {
    const proxy = network()
    const store = await database.open({ url: proxy.url })
    await store.claim(sampleCall())
    const { writer } = store
    proxy.refuse = true
    proxy.drop()
    await vi.waitUntil(() => !store.mayStart(writer), LIMIT)
    expect(store.obstacle()).toContain('has not been renewed')
    await new Promise((resolve) => setTimeout(resolve, LEASE_MS / 2))
    proxy.refuse = false
    await vi.waitUntil(() => store.obstacle() === undefined, LIMIT)
    expect(await store.claim(sampleCall({ record: 'after' }))).toMatchObject({ kind: 'claimed' })
    expect(store.writer).not.toBe(writer)
  })
})

it('rule 18: a replica with a late renewal declares no other replica dead for a while', async () => {
  const leaseMs = 5_000
  const proxy = network()
  const [store, other] = [await database.open({ url: proxy.url, leaseMs }), await database.open()]
  await store.claim(sampleCall({ record: 'own' }))
  await other.claim(sampleCall({ record: 'other' }))
  const { writer } = store
  const leaseUntil = async () =>
    Number(
      (
        await query<{ lease_until: string }>(
          database.url,
          `SELECT lease_until FROM writers WHERE id = '${writer}'`,
        )
      )[0]?.lease_until,
    )
  const untilMs = await leaseUntil()
  // The database is unreachable for longer than half a lease, and back before the lease ends.
  proxy.refuse = true
  proxy.drop()
  await vi.waitUntil(() => Date.now() > untilMs - leaseMs * 0.4, LIMIT)
  proxy.refuse = false
  await vi.waitUntil(async () => (await leaseUntil()) > untilMs, LIMIT)
  await query(database.url, `UPDATE writers SET lease_until = 1 WHERE id = '${other.writer}'`)
  expect(await store.recover(5_000)).toEqual({ deadWriters: 0, ambiguous: 0 })
  // It did not lose its own lease, which would have the same effect.
  expect([store.writer, store.mayStart(writer)]).toEqual([writer, true])
})

it.each([
  ['40P01', 'as the victim of a deadlock'],
  ['40001', 'because it could not be serialised'],
  ['55P03', 'because a lock was not to be had'],
])('a group that PostgreSQL undoes (%s, %s) is tried again until it is committed', async (code) => {
  const store = await database.open()
  await store.probe()
  const name = `undo_${code.toLowerCase()}`
  // A sequence does not go back with its transaction, so only the first three tries fail.
  await query(
    database.url,
    `CREATE SEQUENCE ${name};
    CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN IF nextval('${name}') <= 3 THEN RAISE EXCEPTION USING ERRCODE = '${code}'; END IF; RETURN NEW; END $$;
    CREATE TRIGGER ${name} BEFORE INSERT ON commit_groups FOR EACH ROW EXECUTE FUNCTION ${name}()`,
  )
  try {
    expect(await store.claim(sampleCall({ record: name }))).toMatchObject({ kind: 'claimed' })
    expect(await stateOf(store, name)).toBe('running')
    const [row] = await query<{ last_value: string }>(database.url, `SELECT last_value FROM ${name}`)
    expect(Number(row?.last_value)).toBe(4)
  } finally {
    await query(database.url, `DROP TRIGGER ${name} ON commit_groups`)
  }
})

it('a writer that is being created has no lease yet, and blocks nothing', async () => {
  const proxy = network()
  const store = await database.open({ url: proxy.url })
  const obstacles = new Set<string | undefined>()
  const look = setInterval(() => obstacles.add(store.obstacle()))
  // Several round trips separate its row from its lease.
  proxy.delayMs = 50
  await store.claim(sampleCall())
  clearInterval(look)
  expect([...obstacles]).toEqual([undefined])
})

it('a machine whose clock differs from the database accepts no calls', async () => {
  const [fast, slow] = [
    await database.open({ wallMs: () => Date.now() + 5_000 }),
    await database.open({ wallMs: () => Date.now() - 5_000 }),
  ]
  for (const store of [fast, slow]) await store.claim(sampleCall({ record: store.writer }))
  expect(fast.obstacle()).toMatch(/clock of this machine is \d+ ms ahead/)
  expect(slow.obstacle()).toMatch(/clock of this machine is \d+ ms behind/)
  expect(fast.mayStart(fast.writer)).toBe(false)
})

describe('another process', () => {
  const children = new Set<ChildProcess>()
  afterEach(async () => {
    for (const child of children) {
      const gone = once(child, 'exit')
      if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL')) await gone
    }
    children.clear()
  })

  async function startWriter(...records: readonly string[]) {
    const file = fileURLToPath(new URL('postgres-writer-process.ts', import.meta.url))
    const flags = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
    const args = [database.url, database.masterKey.toString('base64'), String(LEASE_MS), ...records]
    const child = spawn(process.execPath, [...flags, file, ...args], { stdio: ['pipe', 'pipe', 'inherit'] })
    children.add(child)
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    const next = async () => String((await lines.next()).value)
    expect(await next()).toBe('claimed true')
    return { child, next }
  }

  it('that is killed: its calls are recovered within two leases, calls of live writers are unchanged', async () => {
    const store = await database.open()
    await store.claim(sampleCall({ record: 'living' }))
    const records = Array.from({ length: 10 }, (_, index) => `killed-${index}`)
    const { child } = await startWriter(...records)
    await store.recover(5_000)
    expect(await stateOf(store, 'killed-0')).toBe('running')
    const killedMs = performance.now()
    child.kill('SIGKILL')
    let ambiguous = 0
    await vi.waitUntil(async () => {
      ambiguous += (await store.recover(5_000)).ambiguous
      return ambiguous === records.length
    }, LIMIT)
    expect(performance.now() - killedMs).toBeLessThan(2 * LEASE_MS)
    expect(await stateOf(store, 'living')).toBe('running')
    expect(await store.verify()).toMatchObject({ ok: true })
  })

  it('that is paused past its lease: its calls are ambiguous, and its later writes change nothing', async () => {
    const store = await database.open()
    await store.probe()
    const { child, next } = await startWriter('stopped')
    child.kill('SIGSTOP')
    await vi.waitUntil(async () => (await store.recover(5_000)).ambiguous === 1, LIMIT)
    child.kill('SIGCONT')
    child.stdin.write('go on\n')
    expect(JSON.parse(await next())).toEqual({ mayStart: false, states: ['ambiguous'] })
    expect(await stateOf(store, 'stopped')).toBe('ambiguous')
    child.stdin.end()
    await once(child, 'exit')
    expect(await store.verify()).toMatchObject({ ok: true })
  })
})

it('rule 11: a process without a lease writes nothing, and reports a store failure', async () => {
  const away = { url: 'postgres://postgres@127.0.0.1:1/away', leaseMs: LEASE_MS, wallMs: Date.now }
  const lease = new Lease(away)
  const refused = await lease.start().catch((error: unknown) => error)
  await lease.close()
  expect(refused).toBeInstanceOf(StoreError)
  expect(refused).toMatchObject({ code: 'full', message: expect.stringContaining('no lease') })
})
