import { createServer } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { API_KEY } from './add-contract.ts'
import { announce } from './announce.ts'

/** The add tool on the MCP SDK v2: stateless, revision 2026-07-28; a tool that only returns is answered with one JSON body. */
const input = z.object({
  a: z.number().describe('The first number.'),
  b: z.number().describe('The second number.'),
})

function makeServer(): McpServer {
  const server = new McpServer({ name: 'bench', version: '1.0.0' })
  server.registerTool(
    'Calculator_Add',
    { description: 'Adds two numbers together.', inputSchema: input },
    ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }] }),
  )
  return server
}

const handle = toNodeHandler(createMcpHandler(makeServer))

const server = createServer((request, response) => {
  if (request.headers['x-api-key'] !== API_KEY) {
    response.writeHead(401).end()
    return
  }
  const { method = 'POST', url = '/' } = request
  void handle(Object.assign(request, { method, url }), response)
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('Expected a TCP address.')
  announce(address.port, () => server.closeAllConnections())
})
