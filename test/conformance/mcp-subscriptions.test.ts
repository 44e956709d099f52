import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { resource, resourceChanged } from '#entries/resource'
import { openStage, type Stage } from '../interop/stage.ts'
import { ask, endTalks, events, inSession, openSession, startTalk } from './mcp-talk.ts'

const LIMIT_MS = 120_000
const WATCHED = 'test://watched-resource'
const UNKNOWN = 'test://nothing'

const change = { id: 9, method: 'tools/call', params: { name: 'test_update_resource', arguments: {} } }

async function listenIn(url: string, session: string) {
  const ended = new AbortController()
  const address = /\/mcp(?:\/|$)/.test(url) ? url : `${url}/mcp`
  const response = await fetch(address, {
    headers: { accept: 'text/event-stream', 'mcp-session-id': session },
    signal: ended.signal,
  })
  return { stream: events(response), end: () => ended.abort() }
}

describe('subscriptions to resources of MCP servers', () => {
  let stage: Stage

  beforeAll(async () => {
    stage = await openStage()
  }, LIMIT_MS)
  afterAll(() => stage.close())

  describe.each(['through', 'crossed'] as const)('%s', (way) => {
    it('MCP-193, MCP-195: a session gets the updates of a resource until it unsubscribes', async () => {
      const url = stage.urlOf('2025-11-25', way)
      const session = await openSession(url)
      const send = async (message: object) =>
        JSON.parse(await (await inSession(url, session, message)).text())
      const { stream, end } = await listenIn(url, session)
      const subscribe = { id: 2, method: 'resources/subscribe', params: { uri: WATCHED } }
      expect(await send(subscribe)).toEqual({ jsonrpc: '2.0', id: 2, result: {} })
      await send(change)
      expect((await stream.next()).value).toEqual({
        jsonrpc: '2.0',
        method: 'notifications/resources/updated',
        params: { uri: WATCHED },
      })
      const unsubscribe = { ...subscribe, id: 3, method: 'resources/unsubscribe' }
      expect(await send(unsubscribe)).toEqual({ jsonrpc: '2.0', id: 3, result: {} })
      expect((await send({ ...subscribe, params: {} })).error.code).toBe(-32_602)
      end()
    })

    it('MCP-194, MCP-195: a listen of the newest revision gets the updates that it asked for, tagged', async () => {
      const url = stage.urlOf('2026-07-28', way)
      const ended = new AbortController()
      const params = { notifications: { resourceSubscriptions: [WATCHED] } }
      const response = await ask(
        url,
        { id: 'L', method: 'subscriptions/listen', params },
        { signal: ended.signal },
      )
      const stream = events(response)
      expect((await stream.next()).value.params.notifications).toEqual({ resourceSubscriptions: [WATCHED] })
      await (await ask(url, change)).text()
      expect((await stream.next()).value).toEqual({
        jsonrpc: '2.0',
        method: 'notifications/resources/updated',
        params: { uri: WATCHED, _meta: { 'io.modelcontextprotocol/subscriptionId': 'L' } },
      })
      ended.abort()
    })
  })
})

describe('subscriptions to own resources', () => {
  const note = resource({
    id: 'Docs.Note@1.0.0',
    uri: 'docs://note',
    description: 'A note.',
    read: () => 'Noted.',
  })
  const page = resource({
    id: 'Docs.Page@1.0.0',
    uriTemplate: 'docs://pages/{page}',
    description: 'A page.',
    read: ({ params }) => params.page,
  })
  const hidden = resource({
    id: 'Docs.Hidden@1.0.0',
    uri: 'docs://hidden',
    description: 'Hidden.',
    read: () => 'Hidden.',
  })
  afterAll(endTalks)

  it('MCP-196, MCP-197: authors report changes, and a resource that the caller may not see is unknown', async () => {
    const toolsets = new Map([['notes', { include: ['Docs.Note', 'Docs.Page'], exclude: [] }]])
    const { server } = await startTalk([note, page, hidden], { toolsets })
    const url = `${server.url}/mcp/notes`
    const session = await openSession(url)
    const send = async (message: object) => JSON.parse(await (await inSession(url, session, message)).text())
    const subscribe = (uri: string) => send({ id: 2, method: 'resources/subscribe', params: { uri } })
    const { stream, end } = await listenIn(url, session)
    for (const uri of [UNKNOWN, 'docs://hidden'])
      expect((await subscribe(uri)).error).toMatchObject({ code: -32_002, data: { uri } })
    expect((await subscribe('docs://note')).result).toEqual({})
    expect((await subscribe('docs://pages/one')).result).toEqual({})
    resourceChanged(page, 'docs://pages/two')
    resourceChanged(page, 'docs://pages/one')
    expect((await stream.next()).value.params).toEqual({ uri: 'docs://pages/one' })
    resourceChanged(note)
    expect((await stream.next()).value.params).toEqual({ uri: 'docs://note' })
    await send({ id: 3, method: 'resources/unsubscribe', params: { uri: 'docs://note' } })
    resourceChanged(note)
    resourceChanged(page, 'docs://pages/one')
    expect((await stream.next()).value.params).toEqual({ uri: 'docs://pages/one' })
    expect(() => resourceChanged(page)).toThrow('name the one that changed')
    end()
  })
})
