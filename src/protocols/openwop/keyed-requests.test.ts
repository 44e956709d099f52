import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fault } from '#kernel/base/errors'
import type { Principal } from '#kernel/base/principal'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import type { Store } from '#store/collet-store'
import { openMemoryStore, openSqliteStore } from '#store/sqlite/sqlite-store'
import { ALICE, FakeClock, openTestGateway } from '#testing/test-gateway'
import { jsonReply, refuse } from './errors.ts'
import { KeyedRequests, REPLY_KEPT_MS } from './keyed-requests.ts'

const REPLAY = 'openwop-Idempotent-Replay'
const REFUSED: readonly number[] = [400, 401, 403, 429]
const POLICY = { resultsMs: REPLY_KEPT_MS, journalMs: REPLY_KEPT_MS }

interface Sent {
  readonly key?: string | undefined
  readonly body?: object
  readonly params?: Readonly<Record<string, string>>
  readonly principal?: Principal
}

/** A keyed route with prepared answers, on any store. */
function keyedRouteOn(store: Store, clock = new FakeClock()) {
  const asked: unknown[] = []
  let answer: () => HttpReply | Promise<HttpReply> = () => jsonReply(201, { no: asked.length })
  const keyed = new KeyedRequests({ gateway: openTestGateway([]), store, clock })
  const route = (changes: Partial<HttpRoute> = {}): HttpRoute =>
    keyed.guard({
      ...{ method: 'POST', path: '/v1/things', access: 'authenticated', body: 'json', refuse },
      handle: (request) => {
        asked.push(request.body)
        return answer()
      },
      ...changes,
    })
  const send = async ({ key = 'k', body = {}, params = {}, principal = ALICE }: Sent = {}, at = route()) => {
    const headers = { 'idempotency-key': key }
    const request: HttpRequest = {
      ...{
        method: at.method,
        path: at.path,
        query: new URLSearchParams(),
        headers,
        params,
        body: { ...body },
      },
      ...{ principal, traceId: 't' },
    }
    return await at.handle(request)
  }
  return {
    asked,
    clock,
    route,
    send,
    answers(next: () => HttpReply | Promise<HttpReply>) {
      answer = next
    },
  }
}

describe('keys of requests that change state', () => {
  it('OWP-92: keeps only answers of completed and decided requests; refusals release the key', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(fc.constantFrom(...REFUSED), fc.integer({ min: 200, max: 599 })),
        async (status) => {
          const { send, answers, asked } = keyedRouteOn(openMemoryStore())
          answers(() => jsonReply(status, {}))
          const first = await send()
          expect(first).toMatchObject({ status })
          expect(first.headers).not.toHaveProperty(REPLAY)
          const second = await send()
          const isKept = status < 500 && !REFUSED.includes(status)
          expect(second.headers[REPLAY]).toBe(isKept ? 'true' : undefined)
          expect(asked).toHaveLength(isKept ? 1 : 2)
        },
      ),
    )
  })

  it('OWP-92: thrown errors are treated like returned ones', async () => {
    const { send, answers, asked } = keyedRouteOn(openMemoryStore())
    for (const code of [
      'request_invalid',
      'not_authorized',
      'rate_limited',
      'overloaded',
      'internal',
    ] as const) {
      answers(() => {
        throw fault(code, 'No.')
      })
      await expect(send()).rejects.toMatchObject({ code })
    }
    answers(() => {
      throw new Error('an internal error')
    })
    await expect(send()).rejects.toThrow('an internal error')
    answers(() => {
      throw fault('session_not_found', 'None.')
    })
    expect(await send()).toMatchObject({ status: 404, headers: {} })
    const before = asked.length
    const again = await send()
    expect([again.status, again.headers[REPLAY], asked.length]).toEqual([404, 'true', before])
    expect(again.body).toBe('{"error":"not_found","message":"None."}')
  })

  it('OWP-92: a key belongs to one caller and one endpoint; another body with it is refused', async () => {
    const { send, route, asked } = keyedRouteOn(openMemoryStore())
    await send({ body: { a: 1, b: 2 } })
    expect((await send({ body: { b: 2, a: 1 } })).headers[REPLAY]).toBe('true')
    await expect(send({ body: { a: 2 } })).rejects.toMatchObject({ code: 'key_conflict' })
    const others: readonly (readonly [Sent, HttpRoute?])[] = [
      [{ key: 'K' }],
      [{ principal: { ...ALICE, id: 'key:bob' } }],
      [{ principal: { ...ALICE, tenant: 'other' } }],
      [{ params: { id: 'x' } }],
      [{}, route({ path: '/v1/others' })],
      [{}, route({ method: 'DELETE' })],
    ]
    for (const [sent, at] of others) expect((await send(sent, at)).headers).not.toHaveProperty(REPLAY)
    expect(asked).toHaveLength(1 + others.length)
  })

  it('OWP-92: only one of several concurrent requests runs, and the others get a retry time', async () => {
    const { send, answers, asked } = keyedRouteOn(openMemoryStore())
    let finish: (reply: HttpReply) => void = () => undefined
    answers(() => new Promise((resolve) => (finish = resolve)))
    const first = send()
    await expect.poll(() => asked.length).toBe(1)
    const second = await send()
    expect([second.status, second.headers['retry-after']]).toEqual([409, '1'])
    expect(second.body).toContain('"idempotency_in_flight"')
    await expect(send({ body: { other: true } })).rejects.toMatchObject({ code: 'key_conflict' })
    finish(jsonReply(201, { done: true }))
    expect((await first).status).toBe(201)
    expect(await send()).toMatchObject({ status: 201, body: '{"done":true}' })
    expect(asked).toHaveLength(1)
  })

  it('OWP-92: reads ignore keys, and an invalid key is refused', async () => {
    const { send, route, asked } = keyedRouteOn(openMemoryStore())
    const get = route({ method: 'GET' })
    for (let time = 0; time < 2; time += 1) expect((await send({}, get)).headers).not.toHaveProperty(REPLAY)
    expect(asked).toHaveLength(2)
    for (const key of ['', 'k'.repeat(257), 'a\u0007b']) {
      await expect(send({ key })).rejects.toMatchObject({ code: 'request_invalid' })
    }
    expect(asked).toHaveLength(2)
  })

  it('OWP-92: an answer is repeated for a day', async () => {
    const store = openMemoryStore()
    const { send, clock, asked } = keyedRouteOn(store)
    await send()
    clock.advance(REPLY_KEPT_MS)
    store.purge(clock.nowMs(), POLICY)
    expect((await send()).headers[REPLAY]).toBe('true')
    clock.advance(1)
    store.purge(clock.nowMs(), POLICY)
    expect((await send()).headers).not.toHaveProperty(REPLAY)
    expect(asked).toHaveLength(2)
  })
})

describe('keys of requests in a database', () => {
  let folder: string
  const stores: Store[] = []
  const open = (): Store => {
    const store = openSqliteStore({ path: join(folder, 'collet.db'), masterKey: Buffer.alloc(32, 7) })
    stores.push(store)
    return store
  }
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-keyed-'))
  })
  afterEach(async () => {
    for (const store of stores.splice(0)) await store.close()
    rmSync(folder, { recursive: true })
  })

  it('OWP-92: answers outlive the process, and contain no readable text', async () => {
    const before = keyedRouteOn(open())
    before.answers(() => jsonReply(201, { runId: 'canary-of-a-caller' }))
    const first = await before.send({ key: 'canary-key' })
    await stores.splice(0)[0]?.close()
    const after = keyedRouteOn(open())
    const again = await after.send({ key: 'canary-key' })
    expect(again).toEqual({ ...first, headers: { ...first.headers, [REPLAY]: 'true' } })
    expect(after.asked).toEqual([])
    for (const file of ['collet.db', 'collet.db-wal']) {
      expect(readFileSync(join(folder, file)).includes('canary')).toBe(false)
    }
  })

  it('OWP-92: two processes run a request once; one that a dead process left unanswered runs again', async () => {
    const [one, two] = [open(), open()]
    const [first, second] = [keyedRouteOn(one), keyedRouteOn(two)]
    let finish: (reply: HttpReply) => void = () => undefined
    first.answers(() => new Promise((resolve) => (finish = resolve)))
    const begun = first.send()
    await expect.poll(() => first.asked.length).toBe(1)
    expect((await second.send()).status).toBe(409)
    await one.close()
    expect((await second.send()).status).toBe(201)
    // The answer of the process that was considered dead is not recorded.
    finish(jsonReply(201, { late: true }))
    expect((await begun).status).toBe(201)
    expect(await second.send()).toMatchObject({ body: '{"no":1}', headers: { [REPLAY]: 'true' } })
    expect(second.asked).toHaveLength(1)
  })

  it('OWP-92: nothing runs if the key cannot be recorded', async () => {
    const store = open()
    const { send, asked } = keyedRouteOn(store)
    await store.close()
    await expect(send()).rejects.toMatchObject({ code: 'not_ready' })
    expect(asked).toEqual([])
  })
})
