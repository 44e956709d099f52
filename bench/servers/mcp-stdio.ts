import { McpServer } from '@modelcontextprotocol/server'
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

/** The add tool of the MCP SDK v2 on standard input and output, for programs that serve it over HTTP. */
const server = new McpServer({ name: 'bench', version: '1.0.0' })
server.registerTool(
  'Calculator_Add',
  {
    description: 'Adds two numbers together.',
    inputSchema: z.object({
      a: z.number().describe('The first number.'),
      b: z.number().describe('The second number.'),
    }),
  },
  ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }] }),
)
await server.connect(new StdioServerTransport())
