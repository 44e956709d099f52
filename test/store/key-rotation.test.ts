import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { drive } from '#kernel/store/engine'
import { linkOf } from '#kernel/store/journal'
import { KeyRing } from '#kernel/store/key-ring'
import { rowMac } from '#kernel/store/row-mac'
import { openDatabase } from '#kernel/store/sqlite/engine'
import { DEFINITION, type Store } from '#store/collet-store'
import { API_KEYS } from '#store/keys'
import type { KeyChangeEnd, KeyProgress } from '#store/rotation'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { openStore } from '#store/stores'
import { sampleParking, yesOf } from '../contracts/approval-store-contract.ts'
import { runThrough, sampleCall } from '../contracts/samples.ts'
import { createDatabase, query } from './databases.ts'

const AT = Date.UTC(2026, 0, 1)
const FAR = AT + 9e9
const OLD = randomBytes(32)
const NEW = randomBytes(32)
const CALL = sampleCall({ record: 'ran' })
const KEY = {
  ...{ tenant: 'acme', name: 'agent', keyId: 'key-1', digest: 'd', label: undefined, roles: [] },
  ...{ scopes: ['a:b'], tools: undefined, expiresAtMs: undefined, by: 'cli:root', atMs: AT },
}
const ENTRY = {
  ...{ tenant: 'default', principal: 'key:alice', user: '', provider: 'KEY', ref: 'cred_1' },
  kind: 'secret',
  ...{ value: new Secret('the value'), scopes: [], expiresAtMs: undefined, by: 'cli:ann', atMs: AT },
} as const
const REQUEST = { tenant: 'default', id: 'request-1', asked: 'a', expiresAtMs: FAR }
const REPLY = { status: 201, headers: { a: 'b' }, body: 'the reply' }
const SOURCE = {
  ...{ key: 'Weather', options: { type: 'otc', url: 'https://weather.example' } },
  ...{ addedBy: 'cli:ann', addedMs: AT, replace: false },
}
const OFFERED = {
  ...{ nativeName: 'write_file', description: 'Writes.', inputSchema: {}, outputSchema: {} },
  ...{ policy: { approval: 'always' as const }, binding: {} },
}
const PIN = {
  ...{ nativeName: 'write_file', local: 'write_file', isServed: true, waiting: undefined },
  accepted: { hash: 'h', offered: OFFERED, identity: {}, version: '1.0.0', atMs: AT, by: 'first sight' },
}

let folder: string
let path: string
let opened: Store[]
let timers: NodeJS.Timeout[]
let foreign: string[]

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-rotation-'))
  path = join(folder, 'collet.db')
  opened = []
  timers = []
  foreign = []
})
afterEach(async () => {
  for (const timer of timers) clearInterval(timer)
  for (const store of opened) await store.close()
  rmSync(folder, { recursive: true })
})

function open(masterKey: Uint8Array, oldMasterKey?: Uint8Array): Store {
  const store = openSqliteStore({ path, masterKey, oldMasterKey, onForeign: (row) => foreign.push(row) })
  opened.push(store)
  return store
}

async function close(store: Store): Promise<void> {
  opened = opened.filter((other) => other !== store)
  await store.close()
}

/** Acts as a server, which polls for new keys. */
function serve(masterKey: Uint8Array, oldMasterKey?: Uint8Array): Store {
  const store = open(masterKey, oldMasterKey)
  timers.push(setInterval(() => void Promise.resolve(store.keyChange.follow()).catch(() => undefined), 10))
  return store
}

/** Stores one value of every sealed or signed kind. */
async function fill(store: Store): Promise<void> {
  await runThrough(store, CALL)
  await store.approvals.park(sampleCall(), sampleParking({ expiresAtMs: FAR, quorum: 2 }))
  await store.approvals.decide({ ...yesOf('key:bob'), reason: 'the reason' })
  await store.keys.createKey(KEY)
  await store.vault.put(ENTRY)
  await store.requests.begin(REQUEST)
  await store.requests.answer(REQUEST, REPLY, FAR)
  await store.sources.put(SOURCE)
  await store.pins.write({ source: 'Fs', seen: 0, pins: [PIN], changesServed: true, events: [] })
}

/** Reads all of these values back. */
async function contentsOf(store: Store) {
  return {
    call: await store.find(CALL),
    approval: await store.approvals.findById('approval-1'),
    key: await store.keys.findKey(KEY.keyId),
    secret: (await store.vault.find(ENTRY))?.value?.reveal(),
    reply: await store.requests.begin(REQUEST),
    sources: await store.sources.list(),
    pins: await store.pins.read('Fs'),
    digest: store.digest('text'),
    grant: store.sign('grant', 'text'),
    events: (await store.readJournal([], 1_000)).flatMap(({ events }) => events).filter(isOfCalls),
  }
}

function isOfCalls(event: object): boolean {
  return 'record' in event && [CALL.record, sampleCall().record].includes(String(event.record))
}

async function filled(): Promise<Store> {
  const store = open(OLD)
  await fill(store)
  return store
}

function rotate(
  store: Store,
  onProgress: (progress: KeyProgress) => void = () => undefined,
  maxWaitMs = 5_000,
) {
  let nowMs = Date.now()
  const soon = () => {
    // Long after the announcement, so that nothing waits for readers.
    nowMs += 10_000
    return nowMs
  }
  return store.keyChange.rotate({ by: 'cli:ann', nowMs: soon, onProgress, maxWaitMs })
}

/** The keys of a stolen copy, with the master key of that time. */
function stolenKeys(): KeyRing {
  const copy = join(folder, 'stolen.db')
  copyFileSync(path, copy)
  const keys = new KeyRing({ current: OLD })
  openDatabase(copy, keys, { definition: DEFINITION }).close()
  return keys
}

function change(sql: string, ...values: (string | number)[]) {
  const database = new DatabaseSync(path)
  const rows = database.prepare(sql).all(...values)
  database.close()
  return rows
}

describe('key rotation', () => {
  it('leaves everything readable with only the new key, while a server runs', async () => {
    const first = await filled()
    const before = await contentsOf(first)
    await close(first)
    const server = serve(NEW, OLD)
    await runThrough(server, sampleCall({ record: 'during' }))
    expect(await server.keyChange.status()).toMatchObject({ step: 'not begun', generation: 1 })
    const operator = open(NEW, OLD)
    const intact: boolean[] = []
    const progress: KeyProgress[] = []
    const end = await rotate(operator, (step) => {
      progress.push(step)
      const verified = operator.verify()
      intact.push('ok' in verified && verified.ok)
    })
    expect(end).toEqual({ kind: 'done', generation: 2, resealed: 11 })
    expect(progress.at(0)).toEqual({ step: 'announced' })
    expect(progress.at(-1)).toMatchObject({ step: 'sealing', done: 11, total: 11 })
    expect(new Set(intact)).toEqual(new Set([true]))
    await runThrough(server, sampleCall({ record: 'after' }))
    expect(await server.keyChange.status()).toMatchObject({ step: 'none', generation: 2, due: 0 })
    for (const store of [server, operator]) await close(store)
    for (const timer of timers) clearInterval(timer)
    const later = open(NEW)
    expect(await contentsOf(later)).toEqual(before)
    expect(await later.find(sampleCall({ record: 'after' }))).toMatchObject({ state: 'succeeded' })
    expect(await later.verify()).toMatchObject({ ok: true, badRows: [] })
    expect(foreign).toEqual([])
    expect(await rotate(later)).toEqual({ kind: 'nothing' })
    expect(() => open(OLD)).toThrow('the key does not fit')
  })

  it.each(['SQLite', 'PostgreSQL'])('continues on %s after a kill at any point', async (engine) => {
    const url = engine === 'SQLite' ? `sqlite:${path}` : await createDatabase('rotation')
    const openAt = async (masterKey: Uint8Array, oldMasterKey?: Uint8Array) => {
      const store = await openStore(url, { dataFolder: folder, masterKey, oldMasterKey, mode: 'server' })
      opened.push(store)
      return store
    }
    const first = await openAt(OLD)
    await fill(first)
    const before = await contentsOf(first)
    await close(first)
    // At the announcement, after the first page, after some.
    for (const dieAt of engine === 'SQLite' ? [1, 2, 4] : [1, 4]) {
      expect(runRotation(url, dieAt).signal).toBe('SIGKILL')
      // The lease of the killed process expires.
      if (engine === 'PostgreSQL') await query(url, 'UPDATE writers SET lease_until = 1')
      const other = await openAt(NEW, OLD)
      expect(await other.verify()).toMatchObject({ ok: true })
      expect(await contentsOf(other)).toEqual(before)
      await close(other)
    }
    const { stdout } = runRotation(url, 0)
    expect(JSON.parse(stdout)).toMatchObject({ kind: 'done', generation: 2 })
    const later = await openAt(NEW)
    expect(await contentsOf(later)).toEqual(before)
    expect(await later.verify()).toMatchObject({ ok: true, badRows: [] })
    await expect(openAt(OLD)).rejects.toThrow('the key does not fit')
  })

  it('does not begin while a server runs without the new key, and names the server', async () => {
    const server = serve(OLD)
    await fill(server)
    const operator = open(NEW, OLD)
    expect(await rotate(operator)).toEqual({
      kind: 'lacking',
      writers: [{ writer: server.writer, place: undefined, startedMs: expect.any(Number) }],
    })
    await close(operator)
    expect(await open(OLD).keyChange.status()).toMatchObject({ step: 'none', generation: 1 })
  })

  it('waits for a server that has not loaded the new key, and continues once it has', async () => {
    await close(await filled())
    const server = open(NEW, OLD)
    await runThrough(server, sampleCall({ record: 'during' }))
    const operator = open(NEW, OLD)
    const end: KeyChangeEnd = await rotate(operator, () => undefined, 50)
    expect(end).toMatchObject({ kind: 'waiting', writers: [{ writer: server.writer }] })
    // Nothing is sealed with keys that this server has not loaded yet.
    expect(await operator.keyChange.status()).toMatchObject({ step: 'announced', generation: 1 })
    await runThrough(operator, sampleCall({ record: 'announced' }))
    expect(await server.find(sampleCall({ record: 'announced' }))).toMatchObject({ state: 'succeeded' })
    timers.push(setInterval(() => void server.keyChange.follow(), 10))
    expect(await rotate(operator)).toMatchObject({ kind: 'done' })
  })

  it('revokes the access of an attacker with the old key and an old copy', async () => {
    const first = await filled()
    await close(first)
    const stolen = stolenKeys()
    const [row = {}] = change('SELECT * FROM api_keys')
    const forged = { ...row, scopes: '["everything:*"]' }
    const operator = open(NEW, OLD)
    expect(await rotate(operator)).toMatchObject({ kind: 'done' })
    const mac = rowMac(stolen.current, API_KEYS, forged)
    change('UPDATE api_keys SET scopes = ?, mac = ?', forged.scopes, mac)
    expect(() => operator.keys.findKey(KEY.keyId)).toThrow('changed by someone without the key')

    const [last] = change('SELECT * FROM commit_groups WHERE writer = 1 ORDER BY n DESC LIMIT 1')
    const [id, n, at] = [Number(last?.id) + 1, Number(last?.n) + 1, AT]
    const linked = { id, writer: first.writer, group: n, atMs: at, eventsJson: '[]', callers: null }
    const link = linkOf(stolen.current, String(last?.link), linked)
    change(
      "INSERT INTO commit_groups (id, writer, n, at, events, live, link) VALUES (?, 1, ?, ?, '[]', 0, ?)",
      ...[id, n, at, link],
    )
    expect(await operator.verify()).toMatchObject({
      ok: false,
      firstBad: {
        writer: first.writer,
        group: n,
        reason: 'it was written under keys that were no longer in use',
      },
    })
  })

  it('cannot be reverted by a process that can write the file', async () => {
    const first = await filled()
    await close(first)
    await rotate(open(NEW, OLD))
    change("UPDATE key_generations SET floor = 1, state = 'current'")
    const keys = new KeyRing({ current: NEW })
    expect(() => openDatabase(path, keys, { definition: DEFINITION })).toThrow('the key does not fit')
    expect(() => drive(keys.load(), () => undefined)).toThrow()
  })
})

function runRotation(url: string, dieAt: number) {
  const script = join(import.meta.dirname, 'key-rotation-process.ts')
  const flags = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
  const args = [url, NEW.toString('base64'), OLD.toString('base64'), String(dieAt)]
  return spawnSync(process.execPath, [...flags, script, ...args], { encoding: 'utf8', timeout: 20_000 })
}
