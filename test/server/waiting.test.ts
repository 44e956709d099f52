import { request } from 'node:http'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { NO_LIMITS } from '#stages/limits/settings'
import { EventReader } from '../conformance/event-reader.ts'
import { KEYS } from '../conformance/openwop-fixtures.ts'
import { type RunServer, startRunServer } from '../conformance/run-server.ts'

const RUN = 'held'

let server: RunServer
let readers: EventReader[]

beforeEach(async () => {
  const waiting = { perPrincipal: 2, total: 3, maxMs: 1_000 }
  server = await startRunServer({ limits: { ...NO_LIMITS, waiting } })
  readers = []
  for (const key of [KEYS.root, KEYS.narrow]) await server.otc('Echo.Say', {}, { key, run: RUN })
})

afterEach(async () => {
  for (const reader of readers) reader.leave()
  await server.close()
})

async function follow(key: string): Promise<EventReader> {
  const url = `${server.url}/v1/runs/${RUN}/events`
  const reader = await EventReader.open(url, { authorization: `Bearer ${key}` })
  readers.push(reader)
  return reader
}

function poll(key: string, query = '?lastSequence=99&timeout=1') {
  return server.ask(`/v1/runs/${RUN}/events/poll${query}`, { key })
}

describe('requests that are held open', () => {
  it('OWP-96, C6: streams beyond the limit of a principal are refused, and open ones continue', async () => {
    for (const _ of [1, 2]) expect((await follow(KEYS.root)).status).toBe(200)
    const refused = await poll(KEYS.root)
    expect([refused.status, refused.json.error]).toEqual([429, 'rate_limited'])
    expect(refused.headers['retry-after']).toBe('5')
    expect(refused.json.details).toMatchObject({ scope: 'key', retryAfterMs: 5_000 })
    expect((await follow(KEYS.root)).status).toBe(429)
    expect((await follow(KEYS.narrow)).status).toBe(200)
  })

  it('requests beyond the limit of the server are refused for all callers', async () => {
    await follow(KEYS.root)
    for (const _ of [1, 2]) await follow(KEYS.narrow)
    const refused = await poll(KEYS.root)
    expect([refused.status, refused.headers['retry-after']]).toEqual([503, '5'])
    expect(refused.json.details.scope).toBe('global')
  })

  it('a request that does not wait is not counted', async () => {
    for (const _ of [1, 2]) await follow(KEYS.root)
    expect((await poll(KEYS.root, '')).status).toBe(200)
    const head = await server.ask(`/v1/runs/${RUN}/events`, {
      key: KEYS.root,
      method: 'HEAD',
      isUndocumented: true,
    })
    expect(head.status).toBe(200)
  })

  it('a disconnected stream is no longer counted', async () => {
    const [first] = [await follow(KEYS.root), await follow(KEYS.root)]
    first.leave()
    await vi.waitFor(async () => expect((await poll(KEYS.root)).status).toBe(200), { timeout: 5_000 })
  })

  it('a poll whose client disconnects is no longer counted, long before its timeout', async () => {
    await server.close()
    const waiting = { perPrincipal: 1, total: undefined, maxMs: undefined }
    server = await startRunServer({ limits: { ...NO_LIMITS, waiting } })
    await server.otc('Echo.Say', {}, { run: RUN })
    const headers = { authorization: `Bearer ${KEYS.root}` }
    const path = `/v1/runs/${RUN}/events/poll?lastSequence=99&timeout=60`
    const gone = request(`${server.url}${path}`, { headers, agent: false }).on('error', () => undefined)
    gone.end()
    await vi.waitFor(async () => expect((await poll(KEYS.root)).status).toBe(429), { timeout: 5_000 })
    gone.destroy()
    await vi.waitFor(async () => expect((await poll(KEYS.root)).status).toBe(200), { timeout: 5_000 })
  })

  it('a poll waits no longer than the server’s limit', async () => {
    const startedMs = performance.now()
    expect((await poll(KEYS.root, '?lastSequence=99&timeout=60')).json.events).toEqual([])
    expect(performance.now() - startedMs).toBeLessThan(20_000)
  })
})
