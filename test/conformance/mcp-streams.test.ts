import { afterEach, describe, expect, it } from 'vitest'
import { NO_LIMITS, UNLIMITED } from '#stages/limits/settings'
import { mcpFixtures } from './mcp-fixtures.ts'
import { Gate } from './mcp-gate.ts'
import {
  allOf,
  answerOf,
  ask,
  endTalks,
  events,
  inSession,
  nextOf,
  openSession,
  post,
  startTalk,
} from './mcp-talk.ts'

const CALL = { method: 'tools/call', params: { name: 'Gate_Pass' } }
const ofTools = (_caller: unknown, kind?: string): boolean => kind === undefined
const LISTEN = { method: 'subscriptions/listen', params: { notifications: { toolsListChanged: true } } }

afterEach(endTalks)

describe('clients that disconnect', () => {
  it('MCP-83, MCP-84: in the newest revision the run is cancelled, also before a stream began, and the key still answers', async () => {
    const gate = new Gate()
    const { server } = await startTalk([gate.tool()])
    const leaving = new AbortController()
    const meta = { 'collet/idempotencyKey': 'k-1' }
    const left = ask(server.url, { ...CALL, meta }, { signal: leaving.signal })
    await gate.begun
    leaving.abort()
    await expect(left).rejects.toThrow()
    await gate.aborted
    const { result } = await answerOf(await ask(server.url, { ...CALL, meta }))
    expect(result).toMatchObject({ isError: true, _meta: { 'collet/errorCode': 'cancelled' } })
    expect(result.content[0].text).toMatch(/check/i)
    expect(gate.runs).toBe(1)
  })

  it('MCP-84: a run that another request joined continues', async () => {
    const gate = new Gate()
    const observed = new Gate()
    const { server } = await startTalk([gate.tool(), observed.tool('write', 'Gate.Witness@1.0.0')])
    const leaving = new AbortController()
    const meta = { 'collet/idempotencyKey': 'k-1' }
    const left = ask(server.url, { ...CALL, meta }, { signal: leaving.signal })
    await gate.begun
    const joined = ask(server.url, { ...CALL, meta, id: 2 })
    // Answered after the join, because a server handles its requests in order.
    await (await ask(server.url, { method: 'tools/list' })).text()
    leaving.abort()
    await expect(left).rejects.toThrow()
    // A later caller disconnected too, and its call was cancelled because no other request joined it: the server has noticed both.
    const leavingToo = new AbortController()
    const watching = { method: 'tools/call', params: { name: 'Gate_Witness' } }
    const watched = ask(server.url, watching, { signal: leavingToo.signal })
    await observed.begun
    leavingToo.abort()
    await expect(watched).rejects.toThrow()
    await observed.aborted
    gate.open()
    expect(await answerOf(await joined)).toMatchObject({ result: { structuredContent: 'through' } })
    expect(gate.runs).toBe(1)
  })

  it('MCP-28: in sessions the run continues, and its key answers', async () => {
    const gate = new Gate()
    const { server } = await startTalk([gate.tool()])
    const session = await openSession(server.url)
    const leaving = new AbortController()
    const params = { name: 'Gate_Pass', _meta: { 'collet/idempotencyKey': 'k-1' } }
    const left = inSession(server.url, session, { ...CALL, id: 1, params }, { signal: leaving.signal })
    await gate.begun
    leaving.abort()
    await expect(left).rejects.toThrow()
    gate.open()
    const again = await inSession(server.url, session, { ...CALL, id: 2, params })
    expect(await answerOf(again)).toMatchObject({ result: { structuredContent: { result: 'through' } } })
    expect(gate.runs).toBe(1)
  })
})

describe('cancellation in sessions', () => {
  it('MCP-85: a cancelled request stops and gets no answer; unknown ids are ignored', async () => {
    const gate = new Gate()
    const { server } = await startTalk([gate.tool()])
    const session = await openSession(server.url)
    const call = inSession(server.url, session, { ...CALL, id: 'a' })
    await gate.begun
    const cancel = (requestId: string | number) =>
      inSession(server.url, session, { method: 'notifications/cancelled', params: { requestId } })
    expect((await cancel('nobody')).status).toBe(202)
    expect((await cancel('a')).status).toBe(202)
    await gate.aborted
    const response = await call
    expect([response.status, await response.text()]).toEqual([200, ''])
    expect((await cancel('a')).status).toBe(202)
  })

  it('MCP-85, MCP/T-30: the same id in another session is another request', async () => {
    const gate = new Gate()
    const { server } = await startTalk([gate.tool()])
    const [mine, other] = await Promise.all([openSession(server.url), openSession(server.url)])
    const call = inSession(server.url, mine, { ...CALL, id: 1 })
    await gate.begun
    await inSession(server.url, other, { method: 'notifications/cancelled', params: { requestId: 1 } })
    gate.open()
    expect(await answerOf(await call)).toMatchObject({
      id: 1,
      result: { structuredContent: { result: 'through' } },
    })
  })
})

describe('cancellation over several processes', () => {
  it.each(['write', 'pure'] as const)(
    'MCP-85, MCP/T-30: another process is notified, for a %s tool too',
    async (tier) => {
      const gate = new Gate()
      const talk = await startTalk([gate.tool(tier)])
      const other = await talk.another()
      const session = await openSession(talk.server.url)
      const call = inSession(talk.server.url, session, { ...CALL, id: 1 })
      await gate.begun
      await inSession(other.url, session, { method: 'notifications/cancelled', params: { requestId: 1 } })
      await gate.aborted
      expect(await (await call).text()).toBe('')
    },
  )
})

describe('progress', () => {
  it('MCP-82, MCP-15: rising values only, on the stream of the request, and nothing after its end', async () => {
    const { server } = await startTalk(mcpFixtures().tools)
    const response = await ask(server.url, {
      method: 'tools/call',
      params: { name: 'Slow_Steps' },
      meta: { progressToken: 'p' },
    })
    expect(response.headers.get('content-type')).toBe('text/event-stream')
    const seen = await allOf(events(response))
    const reported = seen.slice(0, -1)
    expect(reported.map(({ params }) => params.progress)).toEqual([1, 2, 3])
    expect(
      reported.every(
        ({ method, params }) => method === 'notifications/progress' && params.progressToken === 'p',
      ),
    ).toBe(true)
    expect(seen.at(-1)).toMatchObject({ id: 1, result: { content: [] } })
  })

  it('MCP-82: none without a token', async () => {
    const { server } = await startTalk(mcpFixtures().tools)
    const response = await ask(server.url, { method: 'tools/call', params: { name: 'Slow_Steps' } })
    expect(response.headers.get('content-type')).toBe('application/json')
  })
})

describe('notifications of list changes', () => {
  it('MCP-46, MCP-47, MCP-49: a listen stream begins with its accepted filters, is tagged, and ends with its result', async () => {
    const { server, changes } = await startTalk([])
    const stream = events(await ask(server.url, { ...LISTEN, id: 'L' }))
    const tag = { 'io.modelcontextprotocol/subscriptionId': 'L' }
    expect(await nextOf(stream)).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/subscriptions/acknowledged',
      params: { notifications: { toolsListChanged: true }, _meta: tag },
    })
    changes.notify(ofTools)
    expect(await nextOf(stream)).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/tools/list_changed',
      params: { _meta: tag },
    })
    const closing = server.close()
    expect(await nextOf(stream)).toMatchObject({ id: 'L', result: { resultType: 'complete', _meta: tag } })
    expect((await stream.next()).done).toBe(true)
    await closing
  })

  it('MCP-47, MCP-86: notifications that were not requested are not sent, and unknown ones are not acknowledged', async () => {
    const { server, changes } = await startTalk([])
    const params = { notifications: { promptsListChanged: true } }
    const stream = events(await ask(server.url, { method: 'subscriptions/listen', params }))
    expect(await nextOf(stream)).toMatchObject({ params: { notifications: {} } })
    changes.notify(ofTools)
    const closing = server.close()
    expect(await nextOf(stream)).toMatchObject({ result: { resultType: 'complete' } })
    await closing
  })

  it('MCP-41, MCP-46: changes of hidden tools are not notified', async () => {
    const { server, changes } = await startTalk([])
    const stream = events(await ask(server.url, LISTEN))
    await nextOf(stream)
    changes.notify(({ id }, kind) => id !== 'anonymous' && kind === undefined)
    changes.notify(({ id }, kind) => id === 'anonymous' && kind === undefined)
    expect(await nextOf(stream)).toMatchObject({ method: 'notifications/tools/list_changed' })
    const closing = server.close()
    expect(await nextOf(stream)).toMatchObject({ result: {} })
    await closing
  })

  it('MCP-47: a principal can open at most a hundred streams', async () => {
    const { server } = await startTalk([])
    const streams = await Promise.all(Array.from({ length: 100 }, () => ask(server.url, LISTEN)))
    const refused = await ask(server.url, LISTEN)
    expect(await answerOf(refused)).toMatchObject({ error: { code: -32603 } })
    await streams[0]?.body?.cancel()
    await expect
      .poll(async () => {
        const response = await ask(server.url, LISTEN)
        const isOpen = response.headers.get('content-type') === 'text/event-stream'
        if (isOpen) await response.body?.cancel()
        return isOpen
      })
      .toBe(true)
    await Promise.all(streams.slice(1).map((response) => response.body?.cancel()))
  })

  it('MCP-24, MCP-25, MCP-27, MCP-46: a session is notified on its newest GET stream, once and without ids', async () => {
    const { server, changes } = await startTalk([])
    const session = await openSession(server.url)
    const get = () =>
      fetch(`${server.url}/mcp`, { headers: { 'Mcp-Session-Id': session, Accept: 'text/event-stream' } })
    const older = await get()
    const newer = await get()
    changes.notify(ofTools)
    const reader = newer.body?.pipeThrough(new TextDecoderStream()).getReader()
    const { value } = (await reader?.read()) ?? {}
    expect(value).toBe(
      'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n',
    )
    const ended = await fetch(`${server.url}/mcp`, {
      method: 'DELETE',
      headers: { 'Mcp-Session-Id': session },
    })
    expect(ended.status).toBe(204)
    expect((await reader?.read())?.done).toBe(true)
    await older.body?.cancel()
  })

  it('MCP-47: streams of every revision count, so that no caller can use all connections', async () => {
    const { server } = await startTalk([])
    const session = await openSession(server.url)
    const get = () =>
      fetch(`${server.url}/mcp`, { headers: { 'Mcp-Session-Id': session, Accept: 'text/event-stream' } })
    const streams = await Promise.all(Array.from({ length: 100 }, get))
    expect(streams.map(({ status }) => status)).toEqual(streams.map(() => 200))
    const refused = await get()
    expect([refused.status, await refused.json()]).toMatchObject([429, { error: { code: -32600 } }])
    expect((await ask(server.url, LISTEN)).headers.get('content-type')).toMatch('application/json')
    await streams[0]?.body?.cancel()
    await expect
      .poll(async () => {
        const response = await get()
        await response.body?.cancel()
        return response.status
      })
      .toBe(200)
    await Promise.all(streams.slice(1).map((response) => response.body?.cancel()))
  })

  it('MCP-24: a GET that does not accept a stream is 406', async () => {
    const { server } = await startTalk([])
    const session = await openSession(server.url)
    const headers = { 'Mcp-Session-Id': session, Accept: 'application/json' }
    expect((await fetch(`${server.url}/mcp`, { headers })).status).toBe(406)
  })
})

describe('MCP-23: sessions of one principal', () => {
  const initialize = (url: string) =>
    post(url, {
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params: {
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name: 'c', version: '1' },
      },
    })
  const countOf = async (url: string, times: number) => {
    const answers = await Promise.all(Array.from({ length: times }, () => initialize(url)))
    const refused = answers.filter(({ status }) => status !== 200)
    for (const response of answers) if (response.status === 200) await response.body?.cancel()
    return { opened: times - refused.length, refused }
  }

  it('are limited to a hundred, and the refusal explains what to do', async () => {
    const { server } = await startTalk([])
    const { opened, refused } = await countOf(server.url, 130)
    expect(opened).toBe(100)
    const [first] = refused
    expect(first?.status).toBe(429)
    expect(first?.headers.get('retry-after')).toBe('300')
    expect(await first?.json()).toMatchObject({
      id: 0,
      error: {
        code: 429,
        message: expect.stringContaining('End one (DELETE'),
        data: { code: 'rate_limited' },
      },
    })
  })

  it('MCP-20: count towards its rate as calls do', async () => {
    // One every minute, after the first thirty.
    const perPrincipal = { ...UNLIMITED, rate: { perMs: 1 / 60_000, burst: 30 } }
    const { server } = await startTalk([], { limits: { ...NO_LIMITS, perPrincipal } })
    const { opened, refused } = await countOf(server.url, 80)
    expect(opened).toBe(30)
    expect(await refused[0]?.json()).toMatchObject({ error: { code: 429, data: { code: 'rate_limited' } } })
  })
})
