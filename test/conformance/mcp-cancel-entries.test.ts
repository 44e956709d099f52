import { createServer } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import {
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ReadResourceRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { prompt } from '#entries/prompt'
import { resource } from '#entries/resource'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { listening } from '../interop/reference-server.ts'
import { egressTo } from '../test-settings.ts'
import { endTalks, inSession, openSession, startTalk } from './mcp-talk.ts'

const SLOW_PROMPT = { name: 'slow', description: 'Waits.' }
const SLOW_RESOURCE = { uri: 'slow://resource', name: 'slow' }

type Wait = (signal: AbortSignal) => Promise<string>

/** An official server of 2025-11-25 whose prompt and resource wait. */
async function startOld(wait: Wait): Promise<string> {
  const transports = new Map<string, StreamableHTTPServerTransport>()
  const http = createServer(async (request, response) => {
    const known = transports.get(String(request.headers['mcp-session-id']))
    if (known !== undefined) return await known.handleRequest(request, response)
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => crypto.randomUUID(),
      onsessioninitialized: (id) => void transports.set(id, transport),
    })
    const server = new Server({ name: 'old', version: '1' }, { capabilities: { prompts: {}, resources: {} } })
    server.setRequestHandler(ListPromptsRequestSchema, () => ({ prompts: [SLOW_PROMPT] }))
    server.setRequestHandler(ListResourcesRequestSchema, () => ({ resources: [SLOW_RESOURCE] }))
    server.setRequestHandler(GetPromptRequestSchema, async (_request, { signal }) => {
      await wait(signal)
      return { messages: [] }
    })
    server.setRequestHandler(ReadResourceRequestSchema, async (_request, { signal }) => {
      await wait(signal)
      return { contents: [] }
    })
    await server.connect(transport)
    await transport.handleRequest(request, response)
  })
  const server = await listening(http)
  onTestFinished(() => server.close())
  return server.url
}

/** An official server of 2026-07-28 whose prompt and resource wait. */
async function startNew(wait: Wait): Promise<string> {
  const handle = toNodeHandler(
    createMcpHandler(() => {
      const capabilities = { prompts: {}, resources: {} }
      const made = new McpServer({ name: 'new', version: '1' }, { capabilities })
      const { server } = made
      server.setRequestHandler('prompts/list', () => ({ prompts: [SLOW_PROMPT] }))
      server.setRequestHandler('resources/list', () => ({ resources: [SLOW_RESOURCE] }))
      server.setRequestHandler('prompts/get', async (_request, { mcpReq }) => {
        await wait(mcpReq.signal)
        return { messages: [] }
      })
      server.setRequestHandler('resources/read', async (_request, { mcpReq }) => {
        await wait(mcpReq.signal)
        return { contents: [], ttlMs: 0, cacheScope: 'private' as const }
      })
      return made
    }),
  )
  const http = createServer((request, response) => {
    const { method = 'POST', url = '/' } = request
    void handle(Object.assign(request, { method, url }), response)
  })
  const server = await listening(http)
  onTestFinished(() => server.close())
  return server.url
}

describe('cancelling requests of a session other than tool calls', () => {
  afterAll(endTalks)

  it.each([
    { method: 'prompts/get', params: { name: 'Slow_Prompt' } },
    { method: 'resources/read', params: { uri: 'slow://resource' } },
  ])('MCP-85: $method ends without an answer, and its function is aborted', async ({ method, params }) => {
    const begun = Promise.withResolvers<AbortSignal>()
    const wait = async (signal: AbortSignal): Promise<string> => {
      begun.resolve(signal)
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      return 'too late'
    }
    const { server } = await startTalk([
      prompt({
        id: 'Slow.Prompt@1.0.0',
        description: 'Waits.',
        run: (_args: object, { signal }: { readonly signal: AbortSignal }) => wait(signal),
      }),
      resource({
        id: 'Slow.Resource@1.0.0',
        uri: 'slow://resource',
        description: 'Waits.',
        read: (_request, { signal }) => wait(signal),
      }),
    ])
    const session = await openSession(server.url)
    const asked = inSession(server.url, session, { id: 5, method, params })
    const signal = await begun.promise
    const notice = { method: 'notifications/cancelled', params: { requestId: 5 } }
    expect((await inSession(server.url, session, notice)).status).toBe(202)
    expect(await (await asked).text()).toBe('')
    expect(signal.aborted).toBe(true)
  })

  it.each(
    [
      { method: 'prompts/get', params: { name: 'Up_slow' } },
      { method: 'resources/read', params: { uri: 'slow://resource' } },
    ].flatMap((asked) => [
      { ...asked, era: '2025-11-25', start: startOld },
      { ...asked, era: '2026-07-28', start: startNew },
    ]),
  )('MCP-85: $method of a server of $era is cancelled there', async ({ method, params, start }) => {
    const begun = Promise.withResolvers<AbortSignal>()
    const aborted = Promise.withResolvers<void>()
    const url = await start(async (signal) => {
      begun.resolve(signal)
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      aborted.resolve()
      return 'too late'
    })
    const { server } = await startTalk([], {
      sources: new Map([['Up', MCP_OPTIONS.parse({ type: 'mcp', url })]]),
      egress: egressTo('127.0.0.1'),
    })
    await server.sourceRead('Up')
    const session = await openSession(server.url)
    const asked = inSession(server.url, session, { id: 5, method, params })
    await begun.promise
    await inSession(server.url, session, { method: 'notifications/cancelled', params: { requestId: 5 } })
    expect(await (await asked).text()).toBe('')
    await aborted.promise
  })
})
