import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { SOURCE_OPTIONS } from '#sources/source-types'
import { answerOf, ask, endTalks, startTalk } from '../../conformance/mcp-talk.ts'
import { type RecordingServer, type Reply, startRecordingServer } from './recording-server.ts'

let upstream: RecordingServer
beforeAll(async () => {
  upstream = await startRecordingServer()
})
afterAll(() => upstream.close())
afterEach(endTalks)

const DOCUMENT = {
  openapi: '3.0.3',
  info: { title: 'Boards', version: '1' },
  paths: {
    '/board': {
      get: { operationId: 'getBoard', summary: 'Read.', responses: { 200: { description: 'ok' } } },
    },
    '/gone': {
      delete: { operationId: 'remove', summary: 'Remove.', responses: { 204: { description: 'ok' } } },
    },
    '/moved': {
      put: {
        operationId: 'move',
        summary: 'Move.',
        responses: { 204: { description: 'ok', headers: { Location: { schema: { type: 'string' } } } } },
      },
    },
  },
}

describe('a tool never returns an empty result if its service returned content', () => {
  it.each<[string, string, Reply, unknown]>([
    ['JSON', 'getBoard', { body: '{"id":"b1"}' }, { id: 'b1' }],
    ['an empty list of blocks', 'getBoard', { body: '{"content":[]}' }, { content: [] }],
    [
      'a picture',
      'getBoard',
      { headers: { 'content-type': 'image/png' }, body: Buffer.from([1, 2]) },
      { mediaType: 'image/png', base64: 'AQI=' },
    ],
    ['JSON although 204 is declared', 'remove', { body: '{"removed":1}' }, { removed: 1 }],
    [
      'JSON although 204 is declared, with a header',
      'move',
      { headers: { 'content-type': 'application/json', location: '/b2' }, body: '{"moved":1}' },
      { body: { moved: 1 }, headers: { location: '/b2' } },
    ],
    ['nothing', 'getBoard', { headers: {}, body: '' }, null],
  ])('%s, over OTC and MCP', async (_title, name, reply, expected) => {
    upstream.answer(({ url }) => (url === '/api.json' ? { body: JSON.stringify(DOCUMENT) } : reply))
    const { origin } = upstream
    const options = SOURCE_OPTIONS.parse({ type: 'openapi', url: `${origin}/api.json`, baseUrl: origin })
    const { server } = await startTalk([], { sources: new Map([['Trello', options]]) })
    const otc = await fetch(`${server.url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ request: { tool_id: `Trello.${name}`, input: {} } }),
    })
    expect(await otc.json()).toMatchObject({ result: { success: true, value: expected } })
    const params = { name: `Trello_${name}`, arguments: {} }
    const { result } = await answerOf(await ask(server.url, { method: 'tools/call', params }))
    expect(result).toMatchObject({
      content: [{ type: 'text', text: JSON.stringify(expected) }],
      structuredContent: expected,
    })
  })

  it('a value in the shape of an MCP result without blocks is shown as text too', async () => {
    const body = '{"content":[],"structuredContent":{"id":"b1"}}'
    upstream.answer(({ url }) => ({ body: url === '/api.json' ? JSON.stringify(DOCUMENT) : body }))
    const { origin } = upstream
    const options = SOURCE_OPTIONS.parse({ type: 'openapi', url: `${origin}/api.json`, baseUrl: origin })
    const { server } = await startTalk([], { sources: new Map([['Trello', options]]) })
    const params = { name: 'Trello_getBoard', arguments: {} }
    const { result } = await answerOf(await ask(server.url, { method: 'tools/call', params }))
    expect(result).toMatchObject({
      content: [{ type: 'text', text: '{"id":"b1"}' }],
      structuredContent: { id: 'b1' },
    })
  })
})
