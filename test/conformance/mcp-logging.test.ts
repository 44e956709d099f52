import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openStage, type Stage } from '../interop/stage.ts'
import { allOf, ask, events, inSession, openSession } from './mcp-talk.ts'

const LIMIT_MS = 120_000
const SENT = ['Tool execution started', 'Tool processing data', 'Tool execution completed']
const WAYS = ['through', 'crossed', 'own'] as const

const LOG_LEVEL = 'io.modelcontextprotocol/logLevel'

async function dataIn(response: Response): Promise<unknown[]> {
  const type = response.headers.get('content-type') ?? ''
  if (!type.startsWith('text/event-stream')) {
    await response.text()
    return []
  }
  return (await allOf(events(response))).flatMap(({ method, params }) =>
    method === 'notifications/message' ? [params.data] : [],
  )
}

describe('log messages of calls', () => {
  let stage: Stage

  beforeAll(async () => {
    stage = await openStage()
  }, LIMIT_MS)
  afterAll(() => stage.close())

  const call = { id: 7, method: 'tools/call', params: { name: 'test_tool_with_logging', arguments: {} } }

  describe.each(WAYS)('%s', (way) => {
    it('MCP-190, MCP-191, MCP-192: a session gets the messages of its calls from its own level up', async () => {
      const url = stage.urlOf('2025-11-25', way)
      const session = await openSession(url)
      const send = (message: object) => inSession(url, session, message)
      expect(await dataIn(await send(call))).toEqual(SENT)
      const set = async (level: string) =>
        JSON.parse(await (await send({ id: 2, method: 'logging/setLevel', params: { level } })).text())
      expect(await set('debug')).toEqual({ jsonrpc: '2.0', id: 2, result: {} })
      expect(await dataIn(await send(call))).toEqual(SENT)
      await set('error')
      expect(await dataIn(await send(call))).toEqual([])
      expect((await set('loud')).error.code).toBe(-32_602)
    })

    it('MCP-87, MCP-192: a request of the newest revision gets messages only if it names a level', async () => {
      const url = stage.urlOf('2026-07-28', way)
      const { method, params } = call
      expect(await dataIn(await ask(url, { method, params }))).toEqual([])
      expect(await dataIn(await ask(url, { method, params, meta: { [LOG_LEVEL]: 'info' } }))).toEqual(SENT)
      expect(await dataIn(await ask(url, { method, params, meta: { [LOG_LEVEL]: 'warning' } }))).toEqual([])
    })
  })
})
