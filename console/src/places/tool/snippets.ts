import { quoted } from '../../app/commands.ts'
import type { ToolDetails } from './tool-data.ts'

/*
 * Writes a call as code in several languages and protocols, and as a test. Used by several pages. No snippet contains a key.
 */

/** Languages and protocols of a copied call. */
export const LANGUAGES = ['curl', 'TypeScript', 'Python'] as const
export const PROTOCOLS = ['OTC', 'OpenTool', 'openwop', 'MCP'] as const
export type Language = (typeof LANGUAGES)[number]
export type Protocol = (typeof PROTOCOLS)[number]

export interface CopiedCall {
  readonly tool: Pick<ToolDetails, 'id' | 'names'>
  readonly input: unknown
  /** The address for programs. */
  readonly url: string
  /** Whether callers need a credential, for which the text has a placeholder. */
  readonly needsKey: boolean
  /** Sent with tools that change something, so that a repeated request runs nothing twice. */
  readonly callId: string | undefined
  /** The user, if the tool requires one. */
  readonly userId?: string | undefined
  /** The run in an openwop snippet. It is new each time, because an ended run accepts no calls. */
  readonly runId: string
}

/**
 * The call as code. openwop lists tools and runs but cannot call tools, so its snippet makes the call over OTC in a run and reads
 * the run over openwop.
 */
export function snippetOf(language: Language, protocol: Protocol, call: CopiedCall): string {
  const { opentool } = call.tool.names
  if (protocol === 'OpenTool' && opentool === null)
    return `${language === 'TypeScript' ? '//' : '#'} OpenTool cannot describe the input of this tool, so the tool is not available over OpenTool.\n`
  return SNIPPETS[language][protocol](call)
}

/** The body of the call over OTC, which Try it sends. */
export function otcBody({
  tool,
  input,
  callId,
  userId,
}: Pick<CopiedCall, 'tool' | 'input' | 'callId' | 'userId'>): object {
  const request = {
    tool_id: tool.id,
    ...(callId === undefined ? {} : { call_id: callId }),
    input,
    ...(userId === undefined ? {} : { context: { user_id: userId } }),
  }
  return { request }
}

/** The outcome of a call, as a test can expect it. */
export type Outcome =
  | { readonly isGood: true; readonly value: unknown }
  | { readonly isGood: false; readonly message: string }

/**
 * The call as a test of the tool that expects the same outcome. It runs without a server, and the test supplies what the tool
 * fetches.
 */
export function testOf(
  tool: TestedTool,
  call: Pick<CopiedCall, 'input' | 'userId'>,
  outcome: Outcome,
): string {
  const name = variableFor(tool.base)
  const given = [
    ...placeholders('secrets', tool, 'secret'),
    ...placeholders('tokens', tool, 'oauth'),
    ...(call.userId === undefined ? [] : [`userId: ${JSON.stringify(call.userId)}`]),
  ]
  const options = given.length === 0 ? '' : `, { ${given.join(', ')} }`
  const wanted = outcome.isGood
    ? `assert.deepEqual(result.ok && result.value, ${script(outcome.value, 1)})`
    : `assert.equal(!result.ok && result.error.message, ${JSON.stringify(outcome.message)})`
  return `import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testTool } from 'collet/testing'
// Import the tool from your own file.
import { ${name} } from './tools.ts'

test(${JSON.stringify(`${tool.base} ${outcome.isGood ? 'answers' : 'refuses'}`)}, async () => {
  const result = await testTool(${name}, ${script(call.input, 1)}${options})
  ${wanted}
})
`
}

export type TestedTool = Pick<ToolDetails, 'base' | 'requirements'>

/** `Gmail.GetEmails` as an identifier: `getEmailsTool`. */
function variableFor(base: string): string {
  const words = base
    .slice(base.indexOf('.') + 1)
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '')
  const name = words.map((word, at) => (at === 0 ? word : word[0]?.toUpperCase() + word.slice(1))).join('')
  const lower = name.charAt(0).toLowerCase() + name.slice(1)
  return /^[a-z]/.test(lower) ? `${lower}Tool` : 'testedTool'
}

function placeholders(member: string, { requirements }: TestedTool, kind: string): readonly string[] {
  const ids = requirements.filter((need) => need.kind === kind).map(({ id }) => id)
  const values = ids.map((id) => `${JSON.stringify(id)}: 'for a test'`)
  return ids.length === 0 ? [] : [`${member}: { ${values.join(', ')} }`]
}

const KEY = 'COLLET_API_KEY'
const MCP_REVISION = '2026-07-28'

const SNIPPETS: Readonly<Record<Language, Readonly<Record<Protocol, (call: CopiedCall) => string>>>> = {
  curl: {
    OTC: (call) => curl(call, '/tools/call', otcBody(call)),
    OpenTool: (call) => curl(call, '/opentool/call', openToolBody(call), contextHeaders(call)),
    openwop: (call) =>
      [
        curl(call, `/v1/tools/${encodeURIComponent(call.tool.names.openwop)}`),
        curl(call, '/tools/call', otcBody(call), { 'collet-run': call.runId }),
        curl(call, `/v1/runs/${call.runId}/events/poll`),
      ].join(''),
    MCP: (call) =>
      curl(call, '/mcp', mcpBody(call), {
        'mcp-protocol-version': MCP_REVISION,
        'mcp-method': 'tools/call',
        'mcp-name': call.tool.names.mcp,
        ...contextHeaders(call),
      }),
  },
  TypeScript: {
    OTC: (call) => `import { connect } from 'collet/client'

const client = connect(${connectArguments(call)})
const { value } = await client.call(${callArguments(call)})
console.log(value)
`,
    OpenTool: (call) => `import { connect } from 'collet/client'

const client = connect(${connectArguments(call, { protocol: 'opentool' })})
const { value } = await client.call(${callArguments(call, call.tool.names.opentool ?? '')})
console.log(value)
`,
    openwop: (call) => `import { connect } from 'collet/client'

const client = connect(${connectArguments(call)})
console.log(await client.catalog.get(${JSON.stringify(call.tool.names.openwop)}))
const { value } = await client.call(${callArguments(call, call.tool.id, { runId: call.runId })})
console.log(value)
await client.runs.end('${call.runId}')
for await (const event of client.runs.events('${call.runId}')) console.log(event.type)
`,
    MCP: (call) => `import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const client = new Client({ name: 'my-agent', version: '1.0.0' })
const transport = new StreamableHTTPClientTransport(new URL(${JSON.stringify(`${call.url}/mcp`)})${scriptHeaders(call)})
await client.connect(transport)
const answer = await client.callTool({
  name: ${JSON.stringify(call.tool.names.mcp)},
  arguments: ${script(call.input, 1)},${
    call.callId === undefined
      ? ''
      : `
  _meta: { 'collet/idempotencyKey': ${JSON.stringify(call.callId)} },`
  }
})
console.log(answer.content)
await client.close()
`,
  },
  Python: {
    OTC: (call) => python(call, [pythonPost('/tools/call', otcBody(call)), 'print(answer.json())']),
    OpenTool: (call) =>
      python(call, [
        pythonPost('/opentool/call', openToolBody(call), contextHeaders(call)),
        'print(answer.json())',
      ]),
    openwop: (call) =>
      python(call, [
        `print(server.get(${JSON.stringify(`/v1/tools/${encodeURIComponent(call.tool.names.openwop)}`)}).json())`,
        pythonPost('/tools/call', otcBody(call), { 'collet-run': call.runId }),
        'print(answer.json())',
        `print(server.get("/v1/runs/${call.runId}/events/poll").json())`,
      ]),
    MCP: (call) => `import asyncio${call.needsKey ? '\nimport os' : ''}

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


async def main():
    headers = ${pythonHeaders(call)}
    async with streamablehttp_client(${JSON.stringify(`${call.url}/mcp`)}, headers=headers) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            answer = await session.call_tool(
                ${JSON.stringify(call.tool.names.mcp)},
                ${pythonOf(call.input, 4)},
            )
            print(answer.content)


asyncio.run(main())
`,
  },
}

/** The MCP client sends the same headers with each request. */
function scriptHeaders({ needsKey, userId }: CopiedCall): string {
  const members = [
    ...(needsKey ? [`authorization: \`Bearer \${process.env.${KEY}}\``] : []),
    ...(userId === undefined ? [] : [`'collet-user': ${JSON.stringify(encodeURIComponent(userId))}`]),
  ]
  return members.length === 0 ? '' : `, {\n  requestInit: { headers: { ${members.join(', ')} } },\n}`
}

function pythonHeaders(call: CopiedCall): string {
  const members = [
    ...(call.needsKey ? [`"authorization": "Bearer " + os.environ["${KEY}"]`] : []),
    ...Object.entries(contextHeaders(call)).map(([name, value]) => `"${name}": ${JSON.stringify(value)}`),
  ]
  return `{${members.join(', ')}}`
}

function openToolBody({ tool, input }: CopiedCall): object {
  return { jsonrpc: '2.0', method: tool.names.opentool, params: input, id: '1' }
}

function mcpBody({ tool, input }: CopiedCall): object {
  return {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: {
      name: tool.names.mcp,
      arguments: input,
      _meta: {
        'io.modelcontextprotocol/protocolVersion': MCP_REVISION,
        'io.modelcontextprotocol/clientCapabilities': {},
      },
    },
  }
}

/** Values that OTC sends in the body and the other protocols in headers. */
function contextHeaders({ callId, userId }: CopiedCall): Readonly<Record<string, string>> {
  return {
    ...(callId === undefined ? {} : { 'idempotency-key': callId }),
    ...(userId === undefined ? {} : { 'collet-user': encodeURIComponent(userId) }),
  }
}

function curl(
  { url, needsKey }: CopiedCall,
  path: string,
  body?: object,
  headers: Readonly<Record<string, string>> = {},
): string {
  const all = body === undefined ? headers : { 'content-type': 'application/json', ...headers }
  const lines = [
    `curl -s ${quoted(url + path)}`,
    ...Object.entries(all).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    // In double quotes, so that the shell inserts the key.
    ...(needsKey ? [`-H "authorization: Bearer $${KEY}"`] : []),
    ...(body === undefined ? [] : [`-d ${quoted(JSON.stringify(body))}`]),
  ]
  return `${lines.join(' \\\n  ')}\n`
}

function connectArguments(
  { url, needsKey }: CopiedCall,
  options: Readonly<Record<string, string>> = {},
): string {
  const members = [
    ...Object.entries(options).map(([name, value]) => `${name}: '${value}'`),
    ...(needsKey ? [`apiKey: process.env.${KEY}`] : []),
  ]
  return `${JSON.stringify(url)}${members.length === 0 ? '' : `, { ${members.join(', ')} }`}`
}

function callArguments(
  { tool, input, callId, userId }: CopiedCall,
  name = tool.id,
  more: Readonly<Record<string, string>> = {},
): string {
  const options = {
    ...(callId === undefined ? {} : { callId }),
    ...(userId === undefined ? {} : { userId }),
    ...more,
  }
  const members = Object.entries(options).map(([member, value]) => `${member}: ${JSON.stringify(value)}`)
  const last = members.length === 0 ? '' : `, { ${members.join(', ')} }`
  return `${JSON.stringify(name)}, ${script(input, 0)}${last}`
}

/** A value as JavaScript, indented by two spaces per level. */
function script(value: unknown, depth: number): string {
  return (JSON.stringify(value, undefined, 2) ?? 'null').replaceAll('\n', `\n${'  '.repeat(depth)}`)
}

function python({ url, needsKey }: CopiedCall, lines: readonly string[]): string {
  const headers = needsKey ? `, headers={"authorization": "Bearer " + os.environ["${KEY}"]}` : ''
  return `${needsKey ? 'import os\n\n' : ''}import httpx

server = httpx.Client(base_url=${JSON.stringify(url)}${headers})
${lines.join('\n')}
`
}

function pythonPost(path: string, body: object, headers: Readonly<Record<string, string>> = {}): string {
  const members = Object.entries(headers).map(
    ([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`,
  )
  const last = members.length === 0 ? '' : `, headers={${members.join(', ')}}`
  return `answer = server.post(${JSON.stringify(path)}, json=${pythonOf(body, 0)}${last})`
}

const PYTHON_WORDS = new Map<unknown, string>([
  [true, 'True'],
  [false, 'False'],
  [null, 'None'],
  [undefined, 'None'],
])

/** A JSON value as Python; JSON strings are valid Python. */
function pythonOf(value: unknown, depth: number): string {
  const word = PYTHON_WORDS.get(value)
  if (word !== undefined) return word
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const items = Array.isArray(value)
    ? value.map((item) => pythonOf(item, depth + 1))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${pythonOf(item, depth + 1)}`)
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}']
  if (items.length === 0) return open + close
  const indent = '    '.repeat(depth + 1)
  return `${open}\n${items.map((item) => `${indent}${item},`).join('\n')}\n${'    '.repeat(depth)}${close}`
}
