import { DatabaseSync } from 'node:sqlite'
import { afterEach, describe, expect, it } from 'vitest'
import { sized } from '../size.ts'
import { useDatabase } from '../store/databases.ts'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

const running: PrincipalsServer[] = []
afterEach(async () => {
  for (const server of running.splice(0)) await server.stop()
})

async function open(store: 'memory' | 'sqlite' = 'sqlite'): Promise<PrincipalsServer> {
  const apiKeys = [
    key('auditor', ['audit:read'], { tenant: 'default' }),
    key('elsewhere', ['audit:read']),
    key('clerk', ['admin:calls'], { tenant: 'default' }),
    key('caller', ['*'], { tenant: 'default' }),
  ]
  const server = await startPrincipalsServer({ auth: { apiKeys, jwt: undefined } }, store)
  running.push(server)
  return server
}

const verify = (server: PrincipalsServer, who = 'auditor', signal?: AbortSignal): Promise<Response> =>
  fetch(`${server.url}/admin/journal/verify`, {
    method: 'POST',
    headers: { authorization: `Bearer k-${who}`, 'content-type': 'application/json' },
    body: '{}',
    ...(signal === undefined ? {} : { signal }),
  })

async function eventsOf(response: Response) {
  const text = await response.text()
  return [...text.matchAll(/^event: (\w+)\ndata: (.*)$/gm)].map(([, type, data = '']) => ({
    type,
    data: JSON.parse(data),
  }))
}

const call = (server: PrincipalsServer, callId: string) =>
  server.ask('/tools/call', {
    method: 'POST',
    key: 'k-caller',
    body: { request: { tool_id: 'Open.Say', call_id: callId, input: {} } },
  })

describe('POST /admin/journal/verify', () => {
  it.each(['memory', 'sqlite'] as const)('reports and stores the result of the check (%s)', async (store) => {
    const server = await open(store)
    await call(server, 'c-1')
    expect((await server.ask('/admin/journal', { key: 'k-auditor' })).json.last).toBe(null)
    const events = await eventsOf(await verify(server))
    expect(events.at(-1)).toMatchObject({
      type: 'verified',
      data: { ok: true, chains: 1, first_bad: null, bad_rows: [], heads: [{ group: expect.any(Number) }] },
    })
    const { json } = await server.ask('/admin/journal', { key: 'k-auditor' })
    expect(json).toMatchObject({ last: { ok: true }, chains: 1, checking: false })
  })

  it('names the entries that were changed in the database file', async () => {
    const server = await open()
    await call(server, 'c-1')
    const path = server.settings.store.replace(/^sqlite:/, '')
    const database = new DatabaseSync(path)
    database.exec(`UPDATE commit_groups SET events = replace(events, 'Open.Say', 'Open.Pay')`)
    database.close()
    const events = await eventsOf(await verify(server))
    expect(events.at(-1)).toMatchObject({
      type: 'verified',
      data: { ok: false, first_bad: { reason: expect.stringContaining('changed') } },
    })
  })

  it('requires permission to read the audit log of all tenants', async () => {
    const server = await open('memory')
    for (const who of ['clerk', 'elsewhere']) {
      const refused = await verify(server, who)
      expect(refused.status, who).toBe(403)
      expect(await refused.text()).toMatch(who === 'clerk' ? /audit:read/ : /whole server/)
    }
    expect((await server.ask('/admin/journal', { key: 'k-clerk' })).status).toBe(403)
  })

  it('runs concurrently with calls, one check at a time, and ends when its client disconnects', async () => {
    const server = await open()
    const writes = sized(300, 20_000)
    for (let at = 0; at < writes; at += 50)
      await Promise.all(Array.from({ length: 50 }, (_, nth) => call(server, `c-${at + nth}`)))
    const [first, second] = await Promise.all([verify(server), verify(server)])
    const calls = Promise.all(Array.from({ length: 20 }, (_, nth) => call(server, `beside-${nth}`)))
    const ends = [await eventsOf(first), await eventsOf(second)].map((events) => events.at(-1)?.type)
    expect((await calls).map(({ status }) => status)).toEqual(Array(20).fill(200))
    expect(ends.toSorted()).toEqual(expect.arrayContaining(['verified']))
    const left = new AbortController()
    await verify(server, 'auditor', left.signal)
    left.abort()
    await expect
      .poll(async () => (await server.ask('/admin/journal', { key: 'k-auditor' })).json.checking)
      .toBe(false)
  })
})

describe('a check in batches', () => {
  const database = useDatabase('journal_pieces')
  const watch = { signal: new AbortController().signal, onGroups: () => undefined }

  it('finds on PostgreSQL the same as a single check, during concurrent commits', async () => {
    const store = await database.open()
    await store.probe()
    const add = (name: string) =>
      store.keys.createKey({
        ...{ tenant: 'default', name, scopes: [], roles: [], tools: undefined, label: undefined },
        ...{ expiresAtMs: undefined, keyId: name, digest: `d-${name}`, by: 'test', atMs: 1 },
      })
    for (let nth = 0; nth < 20; nth += 1) await add(`key-${nth}`)
    const [pieces] = await Promise.all([store.verifyInPieces(watch), add('meanwhile')])
    const whole = await store.verify()
    expect(pieces).toMatchObject({ ok: true, chains: whole.chains })
    expect(whole.ok).toBe(true)
    const ended = AbortSignal.abort(new Error('enough'))
    await expect(store.verifyInPieces({ ...watch, signal: ended })).rejects.toThrow('enough')
  })
})
