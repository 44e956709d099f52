import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Gateway } from '#kernel/call/gateway'
import { RunFeed, type RunPage, StoreChanges } from '#kernel/run/runs'
import { runRoutes } from '#protocols/openwop/run-routes'
import { ALICE, openTestGateway } from '#testing/test-gateway'
import { sqliteSettings, testSettings } from '../test-settings.ts'
import { EventReader, frameOf } from './event-reader.ts'
import { KEYS } from './openwop-fixtures.ts'
import { type RunServer, runOf, startRunServer } from './run-server.ts'

const KEEP_ALIVE = ': keep-alive'
const root = { key: KEYS.root }
const bearer = { authorization: `Bearer ${KEYS.root}` }

describe.each([
  ['memory', testSettings],
  ['SQLite', sqliteSettings],
] as const)('the events of a run on %s', (_store, settingsOf) => {
  let server: RunServer
  const readers: EventReader[] = []

  beforeAll(async () => {
    server = await startRunServer({ settingsOf })
  })

  afterAll(async () => {
    for (const reader of readers) reader.leave()
    await server.close()
  })

  async function follow(runId: string, headers: Record<string, string> = {}): Promise<EventReader> {
    const url = `${server.url}/v1/runs/${encodeURIComponent(runId)}/events`
    const reader = await EventReader.open(url, { ...bearer, ...headers })
    readers.push(reader)
    return reader
  }

  const end = (runId: string) => server.ask(`/v1/runs/${runId}`, { ...root, method: 'DELETE' })

  it('OWP-48, OWP-98: arrive as id, event and data, as they happen, and the stream ends with the run', async () => {
    const { sessionId, runId } = (await server.open({ toolId: 'openwop:Box.Push' })).json
    const reader = await follow(runId)
    expect([reader.status, reader.headers['content-type']]).toEqual([200, 'text/event-stream'])
    await reader.until(1)
    await server.otc('Box.Push', {}, { session: sessionId })
    await reader.until(3)
    await server.ask(`/v1/sessions/${sessionId}`, { ...root, method: 'DELETE' })
    await reader.ended
    expect(reader.frames.map(({ id, event }) => `${id} ${event}`)).toEqual([
      '0 tool.session.opened',
      '1 agent.toolCalled',
      '2 agent.toolReturned',
      '3 tool.session.closed',
    ])
    for (const { id, event, data } of reader.frames)
      expect([String(data.sequence), data.type]).toEqual([id, event])
    expect(reader.frames.map(({ data }) => data)).toEqual(await server.events(runId))
  })

  it('OWP-98: resume by Last-Event-ID from every position, and polling returns the same events', async () => {
    const run = `resumed`
    for (let n = 0; n < 4; n += 1) await server.otc('Echo.Write', {}, { run })
    await end(run)
    const events = await server.events(run)
    expect(events).toHaveLength(8)
    for (let last = -1; last <= events.length; last += 1) {
      const reader = await follow(run, { 'last-event-id': String(last) })
      await reader.ended
      const expected = events.slice(last + 1)
      expect(reader.frames.map(({ data }) => data)).toEqual(expected)
      const poll = await server.ask(`/v1/runs/${run}/events/poll?lastSequence=${last}`, root)
      expect(poll.json).toEqual({ events: expected, isComplete: true })
    }
    const { text } = await server.ask(`/v1/runs/${run}/events?lastSequence=6`, root)
    expect(text).toMatch(/^: events of a run\n\nid: 7\n/)
  })

  it('OWP-98: a reader that reconnects during a live run misses nothing', async () => {
    const run = `left and came back`
    await server.otc('Echo.Write', {}, { run })
    const first = await follow(run)
    await first.until(2)
    first.leave()
    await server.otc('Echo.Write', {}, { run })
    const second = await follow(run, { 'last-event-id': '1' })
    await second.until(2)
    await server.otc('Echo.Say', {}, { run })
    await second.until(4)
    expect(second.frames.map(({ id }) => id)).toEqual(['2', '3', '4', '5'])
  })

  it('C2, OWP-44, OWP-98: the own run of a cancelled call is complete, and its session cancelled', async () => {
    const call = server.otc('Box.Wait', {}, { id: 'long' })
    await vi.waitUntil(() => server.done.at(-1) === 'waiting', { interval: 2 })
    await server.ask('/calls/long', { ...root, method: 'DELETE' })
    const answer = await call
    const reader = await follow(runOf(answer))
    await reader.ended
    expect(reader.frames.map(({ event }) => event)).toEqual([
      'tool.session.opened',
      'agent.toolCalled',
      'agent.toolReturned',
      'tool.session.closed',
    ])
    expect(reader.frames.at(-1)?.data.payload.outcome).toBe('cancelled')
  })

  it('OWP-98: a poll waits for a new event at most as long as requested, and ends with it', async () => {
    const run = 'polled'
    await server.otc('Echo.Say', {}, { run })
    const path = `/v1/runs/${run}/events/poll?lastSequence=1`
    const began = performance.now()
    const quiet = await server.ask(`${path}&timeout=1`, root)
    expect(quiet.json).toEqual({ events: [], isComplete: false })
    expect(performance.now() - began).toBeGreaterThan(900)
    const polled = server.ask(`${path}&timeout=60`, root)
    await server.otc('Echo.Say', {}, { run })
    const { events, isComplete } = (await polled).json
    expect([events[0].sequence, isComplete]).toEqual([2, false])
    expect((await server.ask(path, root)).json.events).toHaveLength(2)
    const over = server.ask(`/v1/runs/${run}/events/poll?lastSequence=3&timeout=60`, root)
    await end(run)
    expect((await over).json).toEqual({ events: [], isComplete: true })
  })

  it.each(['0', '61', '-1', '1.5', '1e1', '', 'x', '100', '１'])(
    'OWP-98: a timeout of "%s" seconds is refused',
    async (timeout) => {
      await server.otc('Echo.Say', {}, { run: 'bounds' })
      const path = `/v1/runs/bounds/events/poll?timeout=${encodeURIComponent(timeout)}`
      const { status, json } = await server.ask(path, root)
      expect([status, json.error]).toEqual([400, 'validation_error'])
    },
  )

  it.each(['-2', '1.5', 'x', '1 2', 'evt_1', '9'.repeat(16), 'NaN', '0x1'])(
    'OWP-98: "%s" is not a valid position to resume from',
    async (last) => {
      await server.otc('Echo.Say', {}, { run: 'bounds' })
      const path = `/v1/runs/bounds/events`
      const asked = encodeURIComponent(last)
      for (const answer of [
        await server.ask(path, { ...root, headers: { 'last-event-id': last } }),
        await server.ask(`${path}?lastSequence=${asked}`, root),
        await server.ask(`${path}/poll?lastSequence=${asked}`, root),
      ]) {
        expect([answer.status, answer.json.error]).toEqual([400, 'validation_error'])
      }
    },
  )

  it('OWP-98: a run of exactly one page, or of more, is read completely and then marked complete', async () => {
    const run = 'long'
    const say = () => server.otc('Echo.Say', {}, { run })
    for (let n = 0; n < 10; n += 1) await Promise.all(Array.from({ length: 25 }, say))
    const reader = await follow(run)
    await reader.until(500)
    await say()
    await end(run)
    await reader.ended
    expect(reader.frames.map(({ id }) => Number(id))).toEqual(
      Array.from({ length: 502 }, (_, index) => index),
    )
    const poll = async (last: number) => {
      const { json } = await server.ask(`/v1/runs/${run}/events/poll?lastSequence=${last}`, root)
      return [json.events.length, json.isComplete]
    }
    expect([await poll(-1), await poll(1), await poll(2), await poll(501)]).toEqual([
      [500, false],
      [500, false],
      [499, true],
      [0, true],
    ])
  })

  it('OWP-98: HEAD opens no stream', async () => {
    await server.otc('Echo.Say', {}, { run: 'head' })
    const { status, text } = await server.ask('/v1/runs/head/events', {
      ...root,
      method: 'HEAD',
      isUndocumented: true,
    })
    expect([status, text]).toEqual([200, ''])
  })

  it('OWP-98: a hundred readers each get every event once, in order', async () => {
    const run = 'crowd'
    await server.otc('Echo.Say', {}, { run })
    const readers = await Promise.all(Array.from({ length: 100 }, () => follow(run)))
    await Promise.all(Array.from({ length: 20 }, () => server.otc('Echo.Say', {}, { run })))
    await end(run)
    await Promise.all(readers.map(({ ended }) => ended))
    const expected = Array.from({ length: 42 }, (_, index) => String(index))
    for (const { frames } of readers) expect(frames.map(({ id }) => id)).toEqual(expected)
  })

  it('bad input: readers that never read delay neither calls nor other readers', async () => {
    const run = 'unread'
    await server.otc('Echo.Say', {}, { run })
    const { port, hostname } = new URL(server.url)
    const stuck = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const socket = connect(Number(port), hostname)
        await once(socket, 'connect')
        socket.pause()
        socket.write(
          `GET /v1/runs/${run}/events HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: ${bearer.authorization}\r\n\r\n`,
        )
        return socket
      }),
    )
    const reader = await follow(run)
    for (let n = 0; n < 10; n += 1) await server.otc('Echo.Write', {}, { run })
    await end(run)
    await reader.ended
    expect(reader.frames).toHaveLength(22)
    for (const socket of stuck) socket.destroy()
  })
})

describe('an idle stream', () => {
  afterEach(() => {
    vi.useRealTimers()
  })

  it('OWP-98: sends a keep-alive at least every 30 seconds, and ends when the reader disconnects', async () => {
    vi.useFakeTimers()
    const feed = new RunFeed(
      new StoreChanges({ watch: () => ({ want: () => undefined, end: () => undefined }) }),
    )
    const page: RunPage = { key: 'k', principal: 'prn_k', events: [], isComplete: false }
    const readRun: Gateway['readRun'] = (_principal, query) => feed.read('k', query, async () => page)
    const [stream] = runRoutes({ ...openTestGateway([]), readRun })
    const reply = await stream?.handle({
      method: 'GET',
      path: '/v1/runs/r/events',
      query: new URLSearchParams(),
      headers: {},
      params: { runId: 'r' },
      body: undefined,
      principal: ALICE,
      traceId: 't',
    })
    if (typeof reply?.body !== 'function') throw new Error('there is no stream')
    const left = new AbortController()
    const pieces = reply.body(left.signal)[Symbol.asyncIterator]()
    expect((await pieces.next()).value).toMatch(/^:/)
    for (let n = 0; n < 3; n += 1) {
      const next = pieces.next()
      await vi.advanceTimersByTimeAsync(30_000)
      const received = await Promise.race([next, Promise.resolve('silent')])
      expect(received).toMatchObject({ value: `${KEEP_ALIVE}\n\n` })
    }
    const last = pieces.next()
    await vi.advanceTimersByTimeAsync(1)
    left.abort()
    await last
    expect((await pieces.next()).done).toBe(true)
    feed.close()
  })

  it('the reader of these tests accepts only complete frames', () => {
    expect(() => frameOf('data: {}\nid: 1')).toThrow()
  })
})

describe('a server that shuts down', () => {
  it('OWP-98: ends its streams, and asks pollers to retry', async () => {
    const server = await startRunServer()
    await server.otc('Echo.Say', {}, { run: 'open' })
    const reader = await EventReader.open(`${server.url}/v1/runs/open/events`, bearer)
    await reader.until(2)
    const poll = server.ask('/v1/runs/open/events/poll?lastSequence=1&timeout=60', root)
    // The poll must be waiting before the server closes.
    await server.ask('/v1/runs/open/events/poll', root)
    await server.close()
    await reader.ended
    const { status, json, headers } = await poll
    expect([status, json.error]).toEqual([503, 'service_unavailable'])
    expect(Number(headers['retry-after'])).toBeGreaterThan(0)
  })
})
