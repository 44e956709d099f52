import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'
import { anyText, anyValue, bodyText, changed, Random } from './random-input.ts'

const ROOT = resolve(import.meta.dirname, '../..')
/** More with `COLLET_FUZZ_CASES`, as `npm run test:long` does; others with `COLLET_FUZZ_SEED`. */
const CASES = Number(process.env.COLLET_FUZZ_CASES ?? 250)
const SEED = Number(process.env.COLLET_FUZZ_SEED ?? 20_261_116)
const AT_ONCE = 8
/** Nobody who still answers takes this long, on however busy a machine. */
const HANG_MS = 30_000
const KEY = 'fuzz-key-fuzz-key-fuzz-key-fuzz-key'

let folder: string
let server: ServerProcess
const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-fuzz-'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(
    join(folder, 'collet.config.ts'),
    `import { tool, ToolError } from ${JSON.stringify(join(ROOT, 'src/index.ts'))}
     const input = { type: 'object', properties: { text: { type: 'string', description: 'A text.' }, list: { type: 'array', items: { type: 'integer' }, description: 'Numbers.' } } } as const
     const one = (name: string, safetyTier: 'pure' | 'read' | 'write', run: (given: any) => unknown) =>
       tool({ id: \`Echo.\${name}@1.0.0\`, description: name, input, output: {}, policy: { safetyTier }, run })
     export default {
       tools: [
         one('Say', 'pure', (given) => given),
         one('Keep', 'write', (given) => given.text ?? null),
         one('Fail', 'read', () => { throw new ToolError('No.', { canRetry: true }) }),
       ],
       server: { port: 0 },
       auth: { apiKeys: [{ id: 'fuzz', key: '${KEY}', scopes: ['*'] }] },
     }`,
  )
  server = await startCollet(['serve'], { cwd: folder })
}, 60_000)

afterAll(async () => {
  agent.destroy()
  const code = await server.stop()
  rmSync(folder, { recursive: true })
  // It was there until the end, and went as it was told.
  expect(code).toBe(0)
})

interface Sent {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

type Lane = (random: Random) => Sent

const JSON_TYPE = { 'content-type': 'application/json' }

function headersOf(random: Random, more: Readonly<Record<string, string>> = {}): Record<string, string> {
  const headers: Record<string, string> = { 'x-api-key': KEY, ...JSON_TYPE, ...more }
  if (random.isLucky(0.1)) headers['content-type'] = sendable(anyText(random))
  if (random.isLucky(0.1)) headers[random.one(ODD_HEADERS)] = sendable(anyText(random))
  return headers
}

const ODD_HEADERS = [
  ...(['accept', 'prefer', 'idempotency-key', 'collet-run', 'collet-session', 'collet-secret'] as const),
  ...(['collet-user', 'collet-authorization', 'traceparent', 'last-event-id', 'mcp-session-id'] as const),
  ...(['mcp-protocol-version', 'mcp-method', 'mcp-name', 'if-none-match', 'origin'] as const),
] as const

/** What a client library lets through; the rest is for raw connections. */
function sendable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 2_000)
}

function index(random: Random): string {
  return encodeURIComponent(anyText(random).toWellFormed()).slice(0, 2_000)
}

const post = (random: Random, path: string, value: unknown, more: Record<string, string> = {}): Sent => ({
  ...{ method: 'POST', path, headers: headersOf(random, more) },
  body: bodyText(random, changed(random, value, random.one([0.005, 0.03, 0.15]))),
})

const get = (random: Random, path: string): Sent => ({
  method: random.one(['GET', 'GET', 'GET', 'DELETE', 'HEAD', 'OPTIONS', 'PUT']),
  path: random.isLucky(0.2) ? `${path}?limit=${index(random)}&after=${index(random)}` : path,
  headers: headersOf(random),
})

const TOOL = ['Echo.Say', 'Echo.Keep', 'Echo.Fail', 'Echo.Say@1.0.0', 'Echo.Nobody'] as const
const INPUT = { text: 'hello', list: [1, 2, 3] }
const CLAIM = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'fuzz', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

const LANES: Readonly<Record<string, Lane>> = {
  OTC(random) {
    const request = { call_id: `c${random.below(500)}`, tool_id: random.one(TOOL), input: INPUT, context: {} }
    const call = { $schema: 'urn:oxp:1.0', request }
    if (random.isLucky(0.7)) return post(random, '/tools/call', call)
    return get(
      random,
      random.one(['/tools', `/calls/${index(random)}`, `/tools/${index(random)}`, '/health']),
    )
  },
  openwop(random) {
    const id = random.isLucky(0.5) ? 'openwop:Echo.Say' : index(random)
    if (random.isLucky(0.4)) return post(random, '/v1/sessions', { toolId: id, ttlSeconds: 60 })
    const path = random.one([
      ...(['/v1/tools', `/v1/tools/${id}`, `/v1/sessions/${id}`, '/.well-known/openwop'] as const),
      ...([`/v1/runs/${id}/events/poll`, `/v1/runs/${id}`, `/v1/runs/${id}/interrupts/${id}`] as const),
    ])
    return random.isLucky(0.7) ? get(random, path) : post(random, path, anyValue(random))
  },
  OpenTool(random) {
    const method = random.one(['Echo_Say', 'Echo_Keep', 'Echo_Fail', 'Nobody'])
    const call = { jsonrpc: '2.0', method, params: INPUT, id: `o${random.below(500)}` }
    if (random.isLucky(0.8)) return post(random, random.one(['/opentool/call', '/opentool/streamCall']), call)
    return get(random, random.one(['/opentool/load', '/opentool/version', `/opentool/${index(random)}`]))
  },
  MCP(random) {
    const method = random.one([
      'tools/call',
      'tools/list',
      'initialize',
      'ping',
      'server/discover',
      'resources/list',
    ])
    const params = { name: random.one(['Echo_Say', 'Echo_Keep', 'x']), arguments: INPUT, _meta: CLAIM }
    const message = { jsonrpc: '2.0', id: random.below(1_000), method, params }
    const headers = random.isLucky(0.7)
      ? { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, 'mcp-name': params.name }
      : { 'mcp-protocol-version': random.one(['2025-11-25', '2025-06-18', '1']) }
    const accept = { accept: 'application/json, text/event-stream' }
    return post(random, '/mcp', random.isLucky(0.1) ? [message, message] : message, { ...headers, ...accept })
  },
  admin(random) {
    const path = random.one([
      ...([
        '/admin/keys',
        '/admin/calls',
        '/admin/audit',
        '/admin/secrets',
        '/admin/pins',
        '/metrics',
      ] as const),
      ...([`/admin/keys/${index(random)}`, `/admin/principals/${index(random)}/keys`] as const),
      ...([`/admin/calls/${index(random)}/settle`, `/admin/approvals/${index(random)}`] as const),
      ...([`/approve/${index(random)}`, `/approvals/${index(random)}`, '/admin/sources'] as const),
    ])
    const body = { principal: 'p', name: 'n', scopes: ['a'], outcome: 'failed', value: 'v', kind: 'secret' }
    return random.isLucky(0.5) ? get(random, path) : post(random, path, body)
  },
}

/** Status of the answer, read to its end; streams are left after a moment. */
function send({ method, path, headers, body }: Sent): Promise<number> {
  return new Promise((answered, reject) => {
    const { hostname, port } = new URL(server.url)
    const asked = httpRequest(
      { hostname, port, method, path, agent, headers: { ...headers } },
      (response) => {
        const status = response.statusCode ?? 0
        const isStream = String(response.headers['content-type']).startsWith('text/event-stream')
        const leave = setTimeout(() => response.destroy(), isStream ? 50 : HANG_MS)
        response.on('data', () => undefined)
        response.once('close', () => {
          clearTimeout(leave)
          answered(status)
        })
      },
    )
    asked.setTimeout(HANG_MS, () => asked.destroy(new Error(`no answer within ${HANG_MS} ms`)))
    asked.once('error', reject)
    asked.end(body)
  })
}

/** An unreadable body at a stream is 500 by OpenTool's own rule (OTS-56). */
const mayBe500 = ({ path }: Sent): boolean => path.startsWith('/opentool/streamCall')

describe(`anything at all, seed ${SEED}`, () => {
  it.each(Object.entries(LANES))(
    '%s answers it, and nothing breaks',
    { timeout: 4 * 3_600_000 },
    async (name, lane) => {
      const random = new Random(SEED + name.length * 7_919 + name.charCodeAt(0))
      const distinct = new Set<string>()
      const statuses = new Map<number, number>()
      const work = async (): Promise<void> => {
        while (sent < CASES) {
          sent += 1
          const message = lane(random)
          distinct.add(JSON.stringify(message))
          const status = await send(message).catch((error: unknown) =>
            expect.fail(`${error}: ${JSON.stringify(message).slice(0, 2_000)}`),
          )
          statuses.set(status, (statuses.get(status) ?? 0) + 1)
          const isFine =
            status >= 200 && (status < 500 || status === 503 || (status === 500 && mayBe500(message)))
          if (!isFine) expect.fail(`${status}: ${JSON.stringify(message).slice(0, 2_000)}`)
        }
      }
      let sent = 0
      await Promise.all(Array.from({ length: AT_ONCE }, work))
      // One that goes in a circle, or is turned away at the door, tries nothing.
      expect(statuses.size).toBeGreaterThan(2)
      expect(statuses.get(200) ?? 0).toBeGreaterThan(CASES / 20)
      expect(distinct.size).toBeGreaterThan(CASES * 0.6)
      await isUnhurt()
    },
  )

  it('raw connections are answered or closed, and nothing breaks', { timeout: 4 * 3_600_000 }, async () => {
    const random = new Random(SEED)
    let opened = 0
    const work = async (): Promise<void> => {
      while (opened < CASES / 5) {
        opened += 1
        await talkRaw(rawText(random))
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    await isUnhurt()
  })
})

function rawText(random: Random): string {
  const { host } = new URL(server.url)
  const body = bodyText(random, anyValue(random))
  const lines = [
    `${random.one(['POST', 'GET', anyText(random)])} ${random.one(['/tools/call', '/mcp', anyText(random)])} HTTP/1.1`,
    `Host: ${random.isLucky(0.8) ? host : anyText(random)}`,
    'Content-Type: application/json',
    random.isLucky(0.5)
      ? `Content-Length: ${random.one([body.length, 0, -1, 1e9, 3])}`
      : 'Transfer-Encoding: chunked',
    ...Array.from({ length: random.below(4) }, () => `${anyText(random)}: ${anyText(random)}`),
  ]
  return `${lines.join(random.isLucky(0.95) ? '\r\n' : '\n')}\r\n\r\n${body}`
}

/** Until the other side closes, or has had its time to answer. */
async function talkRaw(text: string): Promise<void> {
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname).on('error', () => undefined)
  await once(socket, 'connect')
  const closed = once(socket, 'close')
  socket.on('data', () => socket.end())
  socket.write(text, 'latin1')
  const leave = setTimeout(() => socket.destroy(), 200)
  await closed
  clearTimeout(leave)
}

async function isUnhurt(): Promise<void> {
  const health = { method: 'GET', path: '/health', headers: {} }
  expect(await send(health)).toBe(200)
  expect(server.output()).not.toMatch(
    /unexpected fault|Nobody caught|unhandled|stray|RangeError|heap out of memory/i,
  )
}
