import { createServer } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { acceptedContent, createMcpHandler, inputRequired, McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'

/** The official server in its newest form: 2026-07-28 over HTTP, and the old era without sessions beside it. */
export interface ModernServer {
  readonly url: string
  /** `Authorization` of every request, in order. */
  readonly seen: (string | undefined)[]
  /** How often a `server/discover` or `initialize` came. */
  readonly handshakes: string[]
  readonly aborted: string[]
  changeTools(): void
  close(): Promise<void>
}

export async function startModernServer(): Promise<ModernServer> {
  const seen: (string | undefined)[] = []
  const handshakes: string[] = []
  const aborted: string[] = []
  let hasMore = false
  const make = (): McpServer => {
    const server = new McpServer(
      { name: 'modern', version: '1.0.0' },
      { capabilities: { tools: { listChanged: true } } },
    )
    server.registerTool(
      'add',
      {
        description: 'Adds.',
        inputSchema: z.object({ a: z.number(), b: z.number() }),
        outputSchema: z.number(),
      },
      ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }], structuredContent: a + b }),
    )
    server.registerTool(
      'greet',
      { description: 'Asks for a name.', inputSchema: z.object({}) },
      (_input, context) => {
        const answer = acceptedContent<{ name: string }>(context.mcpReq.inputResponses, 'who')
        if (answer === undefined)
          return inputRequired({
            inputRequests: {
              who: inputRequired.elicit({
                message: 'Name?',
                requestedSchema: {
                  type: 'object',
                  properties: { name: { type: 'string' } },
                  required: ['name'],
                },
              }),
            },
            requestState: 'state-ä-1',
          })
        return { content: [{ type: 'text', text: `Hello, ${answer.name}!` }] }
      },
    )
    server.registerTool(
      'wait',
      { description: 'Waits.', inputSchema: z.object({}) },
      async (_input, context) => {
        await new Promise<void>((resolve) => {
          context.mcpReq.signal.addEventListener('abort', () => {
            aborted.push('wait')
            resolve()
          })
        })
        return { content: [] }
      },
    )
    server.registerTool(
      'steps',
      { description: 'Reports.', inputSchema: z.object({}) },
      async (_input, context) => {
        const progressToken = context.mcpReq._meta?.progressToken
        for (const progress of [1, 2])
          if (progressToken !== undefined)
            await context.mcpReq.notify({
              method: 'notifications/progress',
              params: { progressToken, progress, total: 2 },
            })
        return { content: [{ type: 'text', text: 'done' }] }
      },
    )
    if (hasMore)
      server.registerTool('more', { description: 'New.', inputSchema: z.object({}) }, () => ({ content: [] }))
    return server
  }
  const handler = createMcpHandler(make)
  const handle = toNodeHandler(handler)
  const server = createServer((request, response) => {
    seen.push(request.headers.authorization)
    const { method = 'POST', url = '/', headers } = request
    if (headers['mcp-method'] === 'server/discover') handshakes.push('server/discover')
    void handle(Object.assign(request, { method, url }), response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no TCP address')
  return {
    url: `http://127.0.0.1:${address.port}/mcp`,
    seen,
    handshakes,
    aborted,
    changeTools() {
      hasMore = true
      handler.notify.toolsChanged()
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
