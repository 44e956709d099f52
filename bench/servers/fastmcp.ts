import { createServer } from 'node:net'
import { FastMCP } from 'fastmcp'
import { z } from 'zod'
import { API_KEY } from './add-contract.ts'
import { announce } from './announce.ts'

/** The add tool on FastMCP, at its fastest: stateless, one JSON body per reply, nothing logged. */
const input = z.object({
  a: z.number().describe('The first number.'),
  b: z.number().describe('The second number.'),
})

const ignore = (): void => undefined
const server = new FastMCP({
  name: 'bench',
  version: '1.0.0',
  logger: { debug: ignore, error: ignore, info: ignore, log: ignore, warn: ignore },
  authenticate: async (request) => {
    if (request.headers['x-api-key'] !== API_KEY) throw new Response(null, { status: 401 })
    return { caller: 'bench' }
  },
})
server.addTool({
  name: 'Calculator_Add',
  description: 'Adds two numbers together.',
  parameters: input,
  execute: async ({ a, b }) => String(a + b),
})

/** FastMCP does not accept port 0, so a free port is found first. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address()
      if (address === null || typeof address === 'string') throw new Error('Expected a TCP address.')
      probe.close(() => resolve(address.port))
    })
  })
}

const port = await freePort()
await server.start({
  transportType: 'httpStream',
  httpStream: { host: '127.0.0.1', port, endpoint: '/mcp', stateless: true, enableJsonResponse: true },
})
announce(port, () => server.stop())
