import { rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RunEvent } from '#client/index'
import { connect } from '#client/index'
import { type RunningServer, startServer } from '#server/start-server'
import { sampleTool } from '../contracts/samples.ts'
import { testSettings } from '../test-settings.ts'

const closed: number[] = []
let opened = 0
const held: (() => void)[] = []

const tools = [
  sampleTool('Counter.Next@1.0.0', (_, { session }) => (isCount(session) ? ++session.count : undefined), {
    session: {
      idleMs: 60_000,
      open: async () => ({ count: 0, number: ++opened }),
      close: async (state) => void closed.push(isCount(state) ? state.number : -1),
    },
  }),
  sampleTool('Clock.Read@1.0.0', () => 'now', { policy: { safetyTier: 'read' } }),
  sampleTool(
    'Slow.Wait@1.0.0',
    (_, { signal }) =>
      new Promise((resolve, reject) => {
        held.push(() => resolve('done'))
        signal.addEventListener('abort', () => reject(signal.reason))
      }),
  ),
]
const settings = testSettings({ tools })
let server: RunningServer

beforeAll(async () => {
  server = await startServer(settings, { graceMs: 0 })
})

afterAll(async () => {
  await server.close()
  rmSync(settings.dataFolder, { recursive: true })
})

function isCount(state: unknown): state is { count: number; number: number } {
  return typeof state === 'object' && state !== null && 'count' in state
}

async function taken(events: AsyncGenerator<RunEvent>, most: number): Promise<readonly RunEvent[]> {
  const found: RunEvent[] = []
  for await (const event of events) {
    found.push(event)
    if (found.length === most) break
  }
  return found
}

describe('resources of a Collet server beside calls', () => {
  it('OWP-10: the catalog, whole, of one source, and one tool', async () => {
    const { catalog } = connect(server.url)
    expect((await catalog.list()).map(({ toolId }) => toolId)).toEqual([
      ...['openwop:Clock.Read', 'openwop:Counter.Next', 'openwop:Slow.Wait'],
    ])
    expect(await catalog.list({ source: 'mcp' })).toEqual([])
    expect(await catalog.get('openwop:Clock.Read')).toMatchObject({ safetyTier: 'read', approval: 'never' })
    expect(await catalog.get('openwop:Clock.Write')).toBeUndefined()
  })

  it.each(['Counter.Next', 'Counter_Next', 'openwop:Counter.Next'])(
    'a session of %s keeps its state from call to call and closes once',
    async (name) => {
      const client = connect(server.url)
      const session = await client.openSession(name, { runId: `of ${name}` })
      expect(session.runId).toBe(`of ${name}`)
      expect((await session.call()).value).toBe(1)
      expect(await session.call({}, { callId: `second of ${name}` })).toMatchObject({
        ...{ value: 2, runId: session.runId },
      })
      const before = closed.length
      expect([await session.close(), await session.close()]).toEqual([true, false])
      expect(closed.length).toBe(before + 1)
      await expect(session.call()).rejects.toMatchObject({ code: 'session_not_found' })
    },
  )

  it('a session that is used in a block is closed with it', async () => {
    const before = closed.length
    {
      await using session = await connect(server.url).openSession('Counter.Next')
      expect((await session.call()).value).toBe(1)
    }
    expect(closed.length).toBe(before + 1)
  })

  it('a tool without state has no sessions, and the refusal explains it', async () => {
    await expect(connect(server.url).openSession('Clock.Read')).rejects.toMatchObject({
      ...{ name: 'CallFailure', class: 'server', code: 'validation_error' },
    })
  })

  it('OWP-98: events of a run arrive as they happen, from the last position of the reader, until the run ends', async () => {
    const client = connect(server.url)
    await client.call('Clock.Read', {}, { runId: 'tuesday' })
    const first = await taken(client.runs.events('tuesday'), 2)
    expect(first.map(({ type }) => type)).toEqual(['agent.toolCalled', 'agent.toolReturned'])
    const rest = taken(client.runs.events('tuesday', { after: first[0]?.sequence ?? -1 }), 9)
    await client.call('Clock.Read', {}, { runId: 'tuesday' })
    expect(await client.runs.end('tuesday')).toBe(true)
    expect((await rest).map(({ sequence }) => sequence)).toEqual([1, 2, 3])
    expect(await client.runs.end('no such run')).toBe(false)
    await expect(taken(client.runs.events('no such run'), 1)).rejects.toMatchObject({ status: 404 })
  })

  it('a stream that breaks is opened again after the last event', async () => {
    let asked = 0
    const seen: (string | null)[] = []
    const client = connect(server.url, {
      sleep: async () => undefined,
      fetch: async (url, init) => {
        const response = await fetch(url, init)
        if (!url.endsWith('/events')) return response
        asked += 1
        seen.push(new Headers(init.headers).get('last-event-id'))
        return asked > 1 ? response : new Response(cutAfterFirstEvent(response), response)
      },
    })
    await client.call('Clock.Read', {}, { runId: 'wednesday' })
    await client.runs.end('wednesday')
    const events = await taken(client.runs.events('wednesday'), 9)
    expect(events.map(({ sequence }) => sequence)).toEqual([0, 1])
    expect(seen).toEqual([null, '0'])
  })

  it('a reader that aborts gets an error that names the abort', async () => {
    const client = connect(server.url)
    await client.call('Clock.Read', {}, { runId: 'thursday' })
    const leaving = new AbortController()
    const events = client.runs.events('thursday', { signal: leaving.signal })
    expect((await events.next()).value?.sequence).toBe(0)
    leaving.abort()
    await expect(taken(events, 9)).rejects.toThrow('aborted by its caller')
  })

  it('rule 10: reads the state of a call, and cancels it', async () => {
    const client = connect(server.url)
    const waiting = client.tryCall('Slow.Wait', {}, { callId: 'slow-1' })
    await expect.poll(() => held.length).toBe(1)
    expect(await client.calls.get('slow-1')).toMatchObject({ toolId: 'Slow.Wait@1.0.0', state: 'running' })
    expect(await client.calls.cancel('slow-1')).toMatchObject({ callId: 'slow-1' })
    expect(await waiting).toMatchObject({ ok: false, error: { code: 'cancelled' } })
    const ended = await client.calls.get('slow-1')
    expect(ended).toMatchObject({ outcome: { ok: false, error: { class: 'tool' } } })
    await client.call('Clock.Read', {}, { callId: 'with spaces / and slashes' })
    expect(await client.calls.get('with spaces / and slashes')).toMatchObject({
      ...{ state: 'succeeded', outcome: { ok: true, value: 'now' } },
    })
    expect(await client.calls.get('never made')).toBeUndefined()
    const listed: string[] = []
    for await (const { callId, runId, protocol } of client.calls.list()) {
      expect([typeof runId, protocol]).toEqual(['string', 'otc'])
      listed.push(callId)
    }
    expect(listed.slice(0, 2)).toEqual(['with spaces / and slashes', 'slow-1'])
  })
})

it('a list of calls continues over its pages', async () => {
  const client = connect(server.url)
  const ids = Array.from({ length: 60 }, (_, number) => `page-${number}`)
  await Promise.all(ids.map((callId) => client.call('Clock.Read', {}, { callId })))
  const listed: string[] = []
  for await (const { callId } of client.calls.list()) if (callId.startsWith('page-')) listed.push(callId)
  expect(listed.sort()).toEqual(ids.sort())
})

/** The stream of an answer up to the first complete event, and then an error as from a broken connection. */
function cutAfterFirstEvent({ body }: Response): ReadableStream<Uint8Array> {
  const text = new TextDecoder()
  let whole = ''
  return new ReadableStream({
    async start(controller) {
      if (body === null) throw new Error('no body')
      for await (const piece of body) {
        whole += text.decode(piece, { stream: true })
        const end = whole.indexOf('\n\n', whole.indexOf('data:'))
        if (whole.includes('data:') && end > 0) {
          controller.enqueue(new TextEncoder().encode(whole.slice(0, end + 2)))
          break
        }
      }
    },
    pull(controller) {
      controller.error(new TypeError('terminated'))
    },
  })
}
