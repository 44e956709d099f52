// An official client in a process of its own: packages it depends on publish their sources under the condition that
// our own tests run with. Arguments: which client, how it negotiates, and a URL or a command line.
import { Client as NewClient, StreamableHTTPClientTransport as NewHttp } from '@modelcontextprotocol/client'
import { StdioClientTransport as NewStdio } from '@modelcontextprotocol/client/stdio'
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as LegacyStdio } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as LegacyHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'

const [which, mode, target, ...args] = process.argv.slice(2)
const me = { name: 'test', version: '1.0.0' }
const answer = async () => ({ action: 'accept', content: { name: 'Ann' } })
const isHttp = target.startsWith('http')
const command = { command: target, args, stderr: 'inherit' }

const makers = {
  old() {
    const client = new LegacyClient(me, { capabilities: { elicitation: {} } })
    client.setRequestHandler(ElicitRequestSchema, answer)
    return { client, transport: isHttp ? new LegacyHttp(new URL(target)) : new LegacyStdio(command) }
  },
  new() {
    const versionNegotiation = { mode: mode.startsWith('2') ? { pin: mode } : mode }
    const client = new NewClient(me, { capabilities: { elicitation: { form: {} } }, versionNegotiation })
    client.setRequestHandler('elicitation/create', answer)
    return { client, transport: isHttp ? new NewHttp(new URL(target)) : new NewStdio(command) }
  },
}

const { client, transport } = makers[which]()
await client.connect(transport)
const { tools } = await client.listTools()
const sum = await client.callTool({ name: 'Math_Add', arguments: { a: 1, b: 2 } })
const named = await client.callTool({ name: 'Ask_Name', arguments: {} })
const unknown = await client.callTool({ name: 'Nope', arguments: {} }).then(
  () => 'answered',
  (error) => error.message,
)
await client.close()
process.stdout.write(
  JSON.stringify({
    tools: tools.map(({ name }) => name),
    sum: sum.structuredContent,
    named: named.content,
    unknown,
  }),
)
