import { readFileSync, rmSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import { CallFeed } from '#server/admin/call-feed'
import { type RunningServer, startServer } from '#server/start-server'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { attemptAt, sampleCall, success } from '../contracts/samples.ts'
import { startReplicas } from '../replicas/stage.ts'
import { sqliteSettings } from '../test-settings.ts'
import { type CallStream, followCalls } from './call-stream.ts'

const PATIENCE = { timeout: 20_000, interval: 20 }
const ANN = 'ann-has-a-key-of-32-characters-x'
const BOB = 'bob-has-a-key-of-32-characters-x'
const WATCH = 'watch-has-a-key-of-32-characters'

const tools = ['Mail.Read', 'Mail.Send', 'Mail.Ask', 'Bank.Fail'].map((name) => ({
  id: `${name}@1.0.0`,
  description: 'Does something.',
  input: z.object({}),
  output: z.string(),
  policy: {
    safetyTier: name === 'Mail.Read' ? 'read' : 'write',
    ...(name === 'Mail.Ask' ? { approval: 'always' } : {}),
  },
  run: () => {
    if (name === 'Bank.Fail') throw new Error('no money')
    return 'done'
  },
}))

const key = (id: string, text: string, tenant: string, scopes: string[]) => ({
  ...{ id, tenant, scopes },
  key: new Secret(text),
})
const AUTH = {
  apiKeys: [
    key('ann', ANN, 'acme', []),
    key('bob', BOB, 'other', []),
    key('watch', WATCH, 'acme', ['admin:calls']),
  ],
  jwt: undefined,
}

const APPROVALS = z.object({ approvals: z.array(z.object({ id: z.string(), record: z.string() })) })
const SESSION = z.object({ csrf: z.string() })
const NEW_KEY = z.object({ key: z.string(), key_id: z.string() })
const STATS = z.looseObject({
  states: z.record(z.string(), z.number()).optional(),
  bucket_ms: z.number().optional(),
  buckets: z.array(z.looseObject({ at: z.string(), states: z.record(z.string(), z.number()) })).optional(),
})

const open: CallStream[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((stream) => stream.close()))
})

async function follow(url: string, asked: Readonly<Record<string, string>>): Promise<CallStream> {
  const stream = await followCalls(url, asked)
  open.push(stream)
  if (stream.status === 200) await vi.waitFor(() => expect(stream.ready).toBeDefined(), PATIENCE)
  return stream
}

async function call(url: string, tool: string, id: string, credential?: string): Promise<void> {
  const response = await fetch(`${url}/tools/call`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(credential === undefined ? {} : { 'x-api-key': credential }),
    },
    body: JSON.stringify({ request: { tool_id: tool, call_id: id, input: {} } }),
  })
  await response.text()
}

function startTokenOf({ startTokenFile }: RunningServer): string {
  return `Bearer ${readFileSync(startTokenFile, 'utf8').trim()}`
}

/** The latest change of each call: when a poll falls between two changes of a call, they are sent separately. */
const latestOf = ({ changes }: CallStream) => [
  ...new Map(changes.map((change) => [change.record, change])).values(),
]

const toolsOf = (stream: CallStream): readonly string[] => latestOf(stream).map(({ tool }) => tool)

/** Resolves when the stream has sent the end of this many calls, so that its cursor is past all their changes. */
async function untilEnded(stream: CallStream, calls: number): Promise<void> {
  await vi.waitFor(() => expect(endedTools(stream)).toHaveLength(calls), PATIENCE)
}

const endedTools = ({ changes }: CallStream): readonly string[] =>
  changes.filter(({ events }) => events.some((type) => ENDS.has(type))).map(({ tool }) => tool)
const ENDS: ReadonlySet<string> = new Set(['call.succeeded', 'call.failed'])

describe('GET /admin/calls/events', () => {
  let server: RunningServer
  const settings = sqliteSettings({ tools: requireTools(tools), auth: AUTH })
  beforeAll(async () => {
    server = await startServer(settings)
  })
  afterAll(async () => {
    await server.close()
    rmSync(settings.dataFolder, { recursive: true })
  })

  it('streams each change of a call, with its caller, tool and outcome', async () => {
    const stream = await follow(server.url, { 'x-api-key': WATCH })
    await call(server.url, 'Mail.Read', 'r-1', ANN)
    await call(server.url, 'Bank.Fail', 'f-1', ANN)
    await call(server.url, 'Mail.Ask', 'a-1', ANN)
    await vi.waitFor(() => expect(stream.changes.at(-1)?.state).toBe('parked'), PATIENCE)
    expect(latestOf(stream)).toMatchObject([
      {
        tool: 'Mail.Read@1.0.0',
        principal: 'key:ann',
        tenant: 'acme',
        state: 'succeeded',
        safety_tier: 'read',
      },
      { tool: 'Bank.Fail@1.0.0', state: 'failed', error_code: 'tool_failed', took_ms: expect.any(Number) },
      { tool: 'Mail.Ask@1.0.0', state: 'parked', finished_at: null, events: ['call.parked'] },
    ])
  })

  it('is limited to the tenant of its reader; the operator sees all tenants', async () => {
    const own = await follow(server.url, { 'x-api-key': WATCH, query: 'tenant=other' })
    const all = await follow(server.url, { authorization: startTokenOf(server) })
    await call(server.url, 'Mail.Read', 't-1', BOB)
    await call(server.url, 'Mail.Read', 't-2', ANN)
    await untilEnded(all, 2)
    await untilEnded(own, 1)
    expect(latestOf(all).map(({ tenant }) => tenant)).toEqual(['other', 'acme'])
    expect(latestOf(own).map(({ tenant }) => tenant)).toEqual(['acme'])
  })

  it('requires permission to list calls', async () => {
    expect((await follow(server.url, {})).status).toBe(401)
    expect((await follow(server.url, { 'x-api-key': ANN })).status).toBe(403)
    const head = await fetch(`${server.url}/admin/calls/events`, {
      method: 'HEAD',
      headers: { 'x-api-key': WATCH },
    })
    expect([head.status, await head.text()]).toEqual([200, ''])
    expect((await follow(server.url, { 'x-api-key': WATCH, query: 'state=lost' })).status).toBe(400)
  })

  it('streams calls that match the filter, and those that no longer match', async () => {
    const failed = await follow(server.url, { 'x-api-key': WATCH, query: 'state=error&tool=bank.*' })
    const parked = await follow(server.url, { 'x-api-key': WATCH, query: 'state=parked' })
    await call(server.url, 'Mail.Send', 'x-1', ANN)
    await call(server.url, 'Bank.Fail', 'x-2', ANN)
    await call(server.url, 'Mail.Ask', 'x-3', ANN)
    await vi.waitFor(() => expect(parked.changes).toHaveLength(1), PATIENCE)
    const waiting = parked.changes[0]?.record ?? ''
    const listed = await fetch(`${server.url}/admin/approvals`, {
      headers: { authorization: startTokenOf(server) },
    })
    const { approvals } = APPROVALS.parse(await listed.json())
    const id = approvals.find(({ record }) => record === waiting)?.id ?? ''
    await fetch(`${server.url}/admin/approvals/${id}/approve`, {
      method: 'POST',
      headers: { authorization: startTokenOf(server), 'content-type': 'application/json' },
      body: '{}',
    })
    await call(server.url, 'Mail.Ask', 'x-3', ANN)
    await vi.waitFor(() => expect(parked.left).toContain(waiting), PATIENCE)
    await untilEnded(failed, 1)
    expect(toolsOf(failed)).toEqual(['Bank.Fail@1.0.0'])
    expect(failed.left).toEqual([])
  })

  it('resumes after the last received event, and reports when it cannot', async () => {
    const first = await follow(server.url, { 'x-api-key': WATCH })
    await call(server.url, 'Mail.Read', 'l-1', ANN)
    // Calls of earlier tests may still arrive.
    await vi.waitFor(() => expect(endedTools(first)).toContain('Mail.Read@1.0.0'), PATIENCE)
    await first.close()
    await call(server.url, 'Mail.Send', 'l-2', ANN)
    await call(server.url, 'Bank.Fail', 'l-3', ANN)
    const next = await follow(server.url, { 'x-api-key': WATCH, 'last-event-id': first.lastId ?? '' })
    await untilEnded(next, 2)
    expect(next.ready).toEqual({ missed: false })
    // In the order of the changes.
    expect(toolsOf(next)).toEqual(['Mail.Send@1.0.0', 'Bank.Fail@1.0.0'])
    for (const odd of ['nonsense', '99999.1-1', '1.99-5', '-1', '1.1-1.'.repeat(300)]) {
      const lost = await follow(server.url, { 'x-api-key': WATCH, 'last-event-id': odd })
      expect([odd, lost.ready]).toEqual([odd, { missed: true }])
    }
  })

  it('ends when the credential is revoked', async () => {
    const ask = async (method: string, path: string, body?: object) =>
      await fetch(`${server.url}${path}`, {
        method,
        headers: { authorization: startTokenOf(server), 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
    const browserSession = async (key: string): Promise<Record<string, string>> => {
      const signedIn = await fetch(`${server.url}/console/session`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ key }),
      })
      const [cookie = ''] = signedIn.headers.getSetCookie().map((text) => text.split(';')[0] ?? '')
      return { cookie, 'collet-csrf': SESSION.parse(await signedIn.json()).csrf }
    }
    const made = await ask('POST', '/admin/keys', { principal: 'eve', scopes: ['admin:calls'] })
    const { key: secret, key_id: keyId } = NEW_KEY.parse(await made.json())
    const stream = await follow(server.url, { 'x-api-key': secret })
    const session = await browserSession(secret)
    const page = await follow(server.url, session)
    const open = await follow(server.url, await browserSession(WATCH))
    const streams = [stream, page, open]
    await vi.waitFor(() => expect(streams.every(({ keepAlives }) => keepAlives > 0)).toBe(true), PATIENCE)
    expect(streams.map(({ isOver }) => isOver)).toEqual([false, false, false])
    expect((await ask('DELETE', `/admin/keys/${keyId}`)).ok).toBe(true)
    await vi.waitFor(() => expect([stream.isOver, page.isOver]).toEqual([true, true]), PATIENCE)
    expect([stream.end?.code, page.end?.code]).toEqual(['unauthenticated', 'unauthenticated'])
    expect(open.isOver).toBe(false)
  })

  it('ends with the server, with a reason', async () => {
    const other = sqliteSettings({ tools: requireTools(tools), auth: AUTH })
    const second = await startServer(other, { graceMs: 10 })
    const stream = await follow(second.url, { 'x-api-key': WATCH })
    await second.close()
    await vi.waitFor(() => expect(stream.isOver).toBe(true), PATIENCE)
    expect(stream.end).toEqual({ code: 'not_ready', message: 'The server is shutting down.' })
    rmSync(other.dataFolder, { recursive: true })
  })
})

describe('GET /admin/calls/stats', () => {
  it('counts the calls of a filter by state and time', async () => {
    const settings = sqliteSettings({ tools: requireTools(tools), auth: AUTH })
    const server = await startServer(settings)
    for (const id of ['1', '2', '3']) await call(server.url, 'Mail.Read', id, ANN)
    await call(server.url, 'Bank.Fail', '4', ANN)
    await call(server.url, 'Mail.Read', '5', BOB)
    const stats = async (query: string, credential: Record<string, string> = { 'x-api-key': WATCH }) =>
      STATS.parse(
        await (await fetch(`${server.url}/admin/calls/stats?${query}`, { headers: credential })).json(),
      )
    const all = await stats('')
    expect(all).toMatchObject({ states: { succeeded: 3, failed: 1 }, bucket_ms: 30_000, whole: true })
    const inBuckets = (all.buckets ?? []).flatMap(({ states }) => Object.values(states))
    expect(inBuckets.reduce((sum, count) => sum + count, 0)).toBe(4)
    expect((await stats('', { authorization: startTokenOf(server) })).states).toEqual({
      succeeded: 4,
      failed: 1,
    })
    expect((await stats('tool=mail.*&buckets=1')).states).toEqual({ succeeded: 3 })
    expect((await stats('state=error')).states).toEqual({ failed: 1 })
    expect((await stats('since=2020-01-01T00:00:00Z&until=2021-01-01T00:00:00Z')).buckets).toEqual([])
    expect(await stats('since=2022-01-01T00:00:00Z&until=2021-01-01T00:00:00Z')).toHaveProperty('message')
    expect(await stats('buckets=0')).toHaveProperty('message')
    // Buckets begin at round times, independent of the span's start, so a call stays in its bucket.
    for (const ago of [61_000, 67_001, 73_500, 3_500_000]) {
      const { bucket_ms: bucketMs = 0, buckets = [] } = await stats(
        `since=${new Date(Date.now() - ago).toISOString()}`,
      )
      expect([2_000, 60_000]).toContain(bucketMs)
      expect(buckets.length).toBeGreaterThan(0)
      for (const { at } of buckets) expect(Date.parse(at) % bucketMs).toBe(0)
    }
    await server.close()
    rmSync(settings.dataFolder, { recursive: true })
  })
})

describe('the feed of calls', () => {
  const signal = new AbortController().signal

  it('polls the store once for all of its readers, and not at all without readers', async () => {
    const store = openSqliteStore({ path: ':memory:', masterKey: Buffer.alloc(32, 7) })
    let looks = 0
    const counted = {
      readJournal: (...asked: Parameters<typeof store.readJournal>) => {
        looks += 1
        return store.readJournal(...asked)
      },
      journalChains: () => store.journalChains(),
      summaries: (records: readonly string[]) => store.summaries(records),
    }
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const feed = new CallFeed({ store: counted, clock: SYSTEM_CLOCK })
    const readers = await Promise.all(Array.from({ length: 50 }, () => feed.open({})))
    await store.claim(sampleCall({ record: 'r' }))
    const run = attemptAt(sampleCall({ record: 'r' }), 1)
    await store.finish({ run, state: 'succeeded', outcome: success('1'), atMs: 5 })
    const taken = Promise.all(readers.map((reader) => reader.take(5_000, signal)))
    await vi.advanceTimersByTimeAsync(300)
    const pages = await taken
    // Two commits, but one change to send: the current state of the call.
    for (const { changed } of pages)
      expect(changed).toMatchObject([
        { call: { record: 'r', state: 'succeeded' }, events: ['call.claimed', 'call.succeeded'] },
      ])
    expect(looks).toBe(2)
    for (const reader of readers) reader.leave()
    await vi.advanceTimersByTimeAsync(60_000)
    expect(looks).toBe(2)
    feed.close()
    await store.close()
  })

  it('disconnects a slow reader with a notice', async () => {
    const store = openSqliteStore({ path: ':memory:', masterKey: Buffer.alloc(32, 7) })
    const feed = new CallFeed({ store, clock: SYSTEM_CLOCK })
    const reader = await feed.open({})
    await Promise.all(Array.from({ length: 2_100 }, (_, n) => store.claim(sampleCall({ record: `r-${n}` }))))
    await vi.waitFor(() => expect(reader.ended?.message).toContain('List calls again'), PATIENCE)
    feed.close()
    await store.close()
  })
})

describe('calls of several servers', () => {
  it('are streamed by each of them, and a reader continues at another one', async () => {
    const replicas = await startReplicas('calls_live', () => tools, { auth: AUTH })
    try {
      const first = await follow(replicas.url(0), { 'x-api-key': WATCH })
      await Promise.all([0, 1, 2].map((n) => call(replicas.url(n), 'Mail.Send', `p-${n}`, ANN)))
      await untilEnded(first, 3)
      await first.close()
      await Promise.all([0, 1, 2].map((n) => call(replicas.url(n), 'Bank.Fail', `q-${n}`, ANN)))
      // A writer that is not in the cursor yet.
      const late = await replicas.start()
      await call(late.url, 'Mail.Read', 'q-3', ANN)
      const next = await follow(replicas.url(1), { 'x-api-key': WATCH, 'last-event-id': first.lastId ?? '' })
      await untilEnded(next, 4)
      expect(next.ready).toEqual({ missed: false })
      expect(toolsOf(next).toSorted()).toEqual([
        ...['Bank.Fail@1.0.0', 'Bank.Fail@1.0.0', 'Bank.Fail@1.0.0', 'Mail.Read@1.0.0'],
      ])
    } finally {
      await replicas.close()
    }
  })
})
