import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tool } from '#kernel/tool/define'
import { serve } from '#server/create-gateway'
import type { RunningServer } from '#server/start-server'

const folder = mkdtempSync(join(tmpdir(), 'collet-integers-'))
const seen: unknown[] = []
let server: RunningServer

const echo = tool({
  id: 'Echo.Any@1.0.0',
  description: 'Gives its input back.',
  input: { type: 'object', properties: { v: { description: 'Any value.' } } },
  output: {},
  policy: { safetyTier: 'read' },
  run: (input) => {
    seen.push(input)
    return input
  },
})

beforeAll(async () => {
  const config = { tools: [echo], server: { port: 0 }, log: { level: 'silent' as const } }
  server = await serve(config, { folder })
})
afterAll(async () => {
  await server.close()
  rmSync(folder, { recursive: true })
})

const MCP_META = JSON.stringify({
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
})

/** Each protocol's call with `input` as JSON text, and the text of its answer. */
const PROTOCOLS: Readonly<Record<string, (input: string) => Promise<{ status: number; text: string }>>> = {
  'OTC, wrapped': (input) =>
    post('/tools/call', `{"request":{"tool_id":"Echo.Any","call_id":"same","input":${input}}}`),
  'OTC, bare': (input) => post('/tools/call', `{"tool_id":"Echo.Any","inputs":${input}}`),
  OpenTool: (input) =>
    post('/opentool/call', `{"jsonrpc":"2.0","method":"Echo_Any","params":${input},"id":"1"}`),
  MCP: (input) =>
    post(
      '/mcp',
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Echo_Any","arguments":${input},"_meta":${MCP_META}}}`,
    ),
}

async function post(path: string, body: string) {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': 'Echo_Any',
  }
  const reply = await fetch(`${server.url}${path}`, { method: 'POST', headers, body })
  return { status: reply.status, text: await reply.text() }
}

describe.each(Object.entries(PROTOCOLS))('an integer that a double cannot hold: %s', (_name, call) => {
  it.each([
    ['{"v":9007199254740993}', 'v'],
    ['{"v":-9007199254740993}', 'v'],
    ['{"v" : 123456789012345678901234567890}', 'v'],
    ['{"v":{"a":[1,{"b":9007199254740993}]}}', '/a/1/b'],
    ['{"v":[9007199254740991,9007199254740993]}', '/1'],
  ])('%s is refused by name and runs nothing', async (input, place) => {
    const before = seen.length
    const { text } = await call(input)
    expect(text).toContain('cannot be represented exactly; send it as a string')
    expect(text).toContain(place)
    expect(seen).toHaveLength(before)
  })
})

it('OTC answers 422 with the parameter', async () => {
  const { status, text } = await post(
    '/tools/call',
    '{"request":{"tool_id":"Echo.Any","input":{"v":9007199254740993}}}',
  )
  expect([status, JSON.parse(text).parameter_errors]).toEqual([
    422,
    { v: 'Is an integer that cannot be represented exactly; send it as a string' },
  ])
})

it.each([
  '9007199254740991',
  '-9007199254740992',
  '10000000000000000000',
  // The spelling that programs with doubles print for one of them.
  '32428471466945070',
  '0.12345678901234567890',
  '1.5e300',
  '"9007199254740993"',
  '"x: 9007199254740993"',
])('%s is accepted', async (number) => {
  const { status, text } = await post(
    '/tools/call',
    `{"request":{"tool_id":"Echo.Any","input":{"v":${number}}}}`,
  )
  expect([status, JSON.parse(text).result.value]).toEqual([200, { v: JSON.parse(number) }])
})
