import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Secret } from '#kernel/base/secret'
import type { MaybePromise } from '#kernel/base/waiting'
import { KeyRing } from '#kernel/store/key-ring'
import { startServer } from '#server/start-server'
import { DEFINITION, type Store } from '#store/collet-store'
import type { NewKey } from '#store/keys'
import { openPostgresStore, prepareDatabase } from '#store/postgres/open'
import { examineStore, migrateStore, openStore } from '#store/stores'
import type { NewCredential } from '#store/vault'
import { sampleParking, yesOf } from '../contracts/approval-store-contract.ts'
import { sampleCall, sampleTool } from '../contracts/samples.ts'
import { sized } from '../size.ts'
import { testSettings } from '../test-settings.ts'
import { createDatabase, elsewhere, query } from './databases.ts'
import { openStoreFolder } from './store-folder.ts'

const { migrations: MIGRATIONS } = DEFINITION

describe('a server on postgres://', () => {
  const pay = () => {
    let payments = 0
    return sampleTool('Bank.Pay@1.0.0', () => {
      payments += 1
      return `payment ${payments}`
    })
  }

  async function call(url: string): Promise<unknown> {
    const body = JSON.stringify({ request: { tool_id: 'Bank.Pay@1.0.0', call_id: 'one', input: {} } })
    const headers = { 'content-type': 'application/json' }
    const reply = await fetch(`${url}/tools/call`, { method: 'POST', headers, body })
    return await reply.json()
  }

  it('answers a key from what another server recorded', async () => {
    const store = await createDatabase('served')
    const settings = testSettings({ tools: [pay()], store, masterKey: randomBytes(32) })
    try {
      for (let start = 0; start < 2; start += 1) {
        const server = await startServer({ ...settings, tools: [pay()] }, { graceMs: 0 })
        expect(await call(server.url)).toMatchObject({ result: { success: true, value: 'payment 1' } })
        await server.close()
      }
    } finally {
      rmSync(settings.dataFolder, { recursive: true })
    }
  })

  it('is not started without COLLET_KEY: replicas with different keys could not read each other', async () => {
    const settings = testSettings({ store: await createDatabase('keyless') })
    try {
      await expect(startServer(settings, { graceMs: 0 })).rejects.toThrow(
        /needs COLLET_KEY.*"collet keys generate" creates one/,
      )
    } finally {
      rmSync(settings.dataFolder, { recursive: true })
    }
  })
})

const NEXT = 'CREATE TABLE hosts (name TEXT PRIMARY KEY) STRICT;'
const masterKey = randomBytes(32)
const keys = new KeyRing({ current: masterKey })
const [OLD, NEW] = [MIGRATIONS.length, MIGRATIONS.length + 1]

describe('the tables of a database', () => {
  it('are not changed by a read-only check, nor by a role without the rights', async () => {
    const url = await createDatabase('migrate_look')
    const access = { dataFolder: '.', masterKey }
    expect(await migrateStore(url, access, 'inspect')).toEqual({ from: 0, to: OLD })
    await expect(openStore(url, { ...access, mode: 'operator' })).rejects.toThrow(
      'does not contain a store yet. Run: collet migrate',
    )
    await expect(openStore(url, { ...access, mode: 'server', migrates: false })).rejects.toThrow(
      'Run: collet migrate',
    )
    expect(await query(url, "SELECT to_regclass('meta') AS found")).toEqual([{ found: null }])
    expect(await migrateStore(url, access, 'migrate')).toEqual({ from: 0, to: OLD })
    expect(await migrateStore(url, access, 'migrate')).toEqual({ from: OLD, to: OLD })
    await (await openStore(url, { ...access, mode: 'server', migrates: false })).close()
  })

  it('of a later version are refused by an older server', async () => {
    const url = await createDatabase('migrate_newer')
    await prepareDatabase(url, keys, { migrations: [...MIGRATIONS, NEXT] })
    await expect(openPostgresStore({ url, masterKey })).rejects.toThrow(
      `written by a newer Collet (schema ${NEW}); this version supports up to ${OLD}`,
    )
  })

  it('can belong to a role other than the one that serves', async () => {
    const url = await createDatabase('migrate_roles')
    await prepareDatabase(url, keys)
    const served = await createRole(
      url,
      'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ROLE',
    )
    const access = { dataFolder: '.', masterKey, mode: 'server', migrates: false } as const
    const store = await openStore(served, access)
    await store.probe()
    await store.close()
  })
})

describe('the doctor’s report about a database', () => {
  const look = async (url: string, nowMs = Date.now) =>
    (await examineStore(url, nowMs)).map(({ subject, level }) => `${subject} ${level}`)

  it('has its version, encoding, durability, free space, clock, rights and schema', async () => {
    const url = await createDatabase('doctor')
    // The PostgreSQL of the tests does not wait for its disk, which the doctor must report.
    const [{ fsync } = { fsync: '' }] = await query<{ fsync: string }>(url, 'SHOW fsync')
    const disk = fsync === 'on' ? 'fsync ok' : 'fsync fail'
    const seen = ['server ok', disk, 'standby ok', 'connections ok', 'clocks ok', 'schema ok']
    expect(await look(url)).toEqual(seen)
    await prepareDatabase(url, keys)
    expect(await look(url)).toEqual(seen)
    expect(await look(url, () => Date.now() + 5_000)).toContain('clocks fail')
    expect(await look(await createRole(url, ''))).not.toContain('schema ok')
    await query(url, "UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    expect(await look(url)).toContain('schema fail')
  })

  it('warns of an unencrypted connection to another host', async () => {
    const url = await createDatabase('doctor_plain')
    expect(await look(elsewhere(url))).toContain('encryption warn')
    expect(await look(url)).not.toContain('encryption warn')
  })

  it('has the reason why it cannot be reached, and what to do', async () => {
    const url = await createDatabase('doctor_away')
    const advice = async (address: string) => (await examineStore(address, Date.now))[0]
    expect(await advice(Object.assign(new URL(url), { pathname: 'nowhere' }).href)).toMatchObject({
      level: 'fail',
      subject: 'store',
    })
    const { message, advice: todo } = (await advice(`${url}?sslmode=require`)) ?? {}
    expect([message, todo].join(' ')).toMatch(/does not support SSL.*Turn on TLS/)
  })
})

describe('a string with NUL', () => {
  const WRITES: Readonly<Record<string, (store: Store, text: string) => MaybePromise<unknown>>> = {
    'label of a key': (store, label) => store.keys.createKey({ ...KEY, label }),
    'name of a key': (store, name) => store.keys.createKey({ ...KEY, name }),
    'reason of an approver': (store, reason) => store.approvals.decide(yesOf('key:bob', { reason })),
    'name of an approver': (store, by) => store.approvals.decide(yesOf(by)),
    'user of a credential': (store, user) => store.vault.put({ ...CREDENTIAL, user }),
    'key of a source': (store, key) =>
      store.sources.put({ key, options: {}, addedBy: 'a', addedMs: 1, replace: false }),
    'name of a pin': (store, nativeName) =>
      store.pins.write({
        ...{ source: 'files', seen: 0, changesServed: true, events: [] },
        pins: [{ nativeName, local: 'a', accepted: undefined, isServed: false, waiting: undefined }],
      }),
    'id of a request': (store, id) =>
      store.requests.begin({ tenant: 'default', id, asked: 'a', expiresAtMs: 9_000 }),
  }
  const READS: Readonly<Record<string, (store: Store, text: string) => MaybePromise<unknown>>> = {
    call: (store, record) => store.find({ tenant: 'default', record }),
    record: (store, record) => store.findByRecord(record),
    session: (store, sessionId) => store.findSession({ tenant: 'default', sessionId }),
    challenge: (store, id) => store.findChallenge(id),
    approval: (store, id) => store.approvals.find({ tenant: 'default', id }),
    key: (store, id) => store.keys.findKey(id),
    credential: (store, ref) => store.vault.findByRef(ref),
    'session of a caller': (store, id) => store.callers.findSession('default', id),
    run: (store, run) => store.findRun({ tenant: 'default', run }),
  }

  it('is kept by no store, and found in none', async () => {
    const folder = openStoreFolder()
    const far = await openPostgresStore({ url: await createDatabase('nul'), masterKey })
    const textWithNul = fc.tuple(fc.string(), fc.string()).map(([left, right]) => `${left}\0${right}`)
    for (const store of [folder.open(), far]) {
      await store.approvals.park(sampleCall(), sampleParking())
      await fc.assert(
        fc.asyncProperty(textWithNul, async (text) => {
          for (const [what, writing] of Object.entries(WRITES))
            await expect(
              Promise.resolve().then(() => writing(store, text)),
              what,
            ).rejects.toThrow('contains NUL')
          for (const [what, reading] of Object.entries(READS))
            expect(await reading(store, text), what).toBeUndefined()
        }),
        { numRuns: sized(5, 200) },
      )
      expect((await store.approvals.find({ tenant: 'default', id: 'approval-1' }))?.state).toBe('pending')
    }
    await far.close()
  })
})

const KEY: NewKey = {
  ...{ tenant: 'default', name: 'alice', keyId: 'key-1', digest: 'D', label: 'l', scopes: [], roles: [] },
  ...{ tools: undefined, expiresAtMs: undefined, by: 'operator', atMs: 1_000 },
}
const CREDENTIAL: NewCredential = {
  ...{
    tenant: 'default',
    principal: 'key:alice',
    user: '',
    provider: 'google',
    kind: 'token',
    ref: 'cred_1',
  },
  ...{ value: new Secret('v'), scopes: [], expiresAtMs: undefined, by: 'a', atMs: 1_000 },
}

/** A role of this test alone: every database of a server has the same ones. */
async function createRole(url: string, rights: string): Promise<string> {
  const role = `collet_test_${randomBytes(4).toString('hex')}`
  await query(url, `CREATE ROLE ${role} LOGIN PASSWORD '${role}'; ${rights.replaceAll('ROLE', role)}`)
  onTestFinished(async () => void (await query(url, `DROP OWNED BY ${role}; DROP ROLE ${role}`)))
  return Object.assign(new URL(url), { username: role, password: role }).href
}
