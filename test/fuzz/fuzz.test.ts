import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { startServer } from '#server/start-server'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'
import { testSettings } from '../test-settings.ts'
import { KEY, LANES, type Living, laneOf, type Route, type Sent, toRoute } from './lanes.ts'
import { anyText, anyValue, bodyText, Random } from './random-input.ts'

const ROOT = resolve(import.meta.dirname, '../..')
/** More with `COLLET_FUZZ_CASES`, as `npm run test:long` does; others with `COLLET_FUZZ_SEED`. */
const CASES = Number(process.env.COLLET_FUZZ_CASES ?? 250)
const SEED = Number(process.env.COLLET_FUZZ_SEED ?? 20_261_116)
const AT_ONCE = 8
/** One in this many requests goes to the next route of the table. */
const SHARE_OF_ROUTES = 4
/** A working server answers faster than this, even on a busy machine. */
const HANG_MS = 30_000
const HOURS_MS = 4 * 3_600_000
/** Key of an approver of the other caller's calls. */
const OTHER_KEY = 'other-key-other-key-other-key-other'
const ISSUER = { issuer: 'http://127.0.0.1:9/issuer', audiences: ['fuzz'], claims: {}, tenant: 'default' }

let folder: string
let server: ServerProcess
let routes: readonly Route[]
let living: Living
const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-fuzz-'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(
    join(folder, 'collet.config.ts'),
    `import { tool, ToolError } from ${JSON.stringify(join(ROOT, 'src/index.ts'))}
     const input = { type: 'object', properties: { text: { type: 'string', description: 'A text.' }, list: { type: 'array', items: { type: 'integer' }, description: 'Numbers.' } } } as const
     const one = (name: string, policy: object, run: (given: any) => unknown, more: object = {}) =>
       tool({ id: \`Echo.\${name}@1.0.0\`, description: name, input, output: {}, policy, run, ...more })
     export default {
       tools: [
         one('Say', { safetyTier: 'pure' }, (given) => given),
         one('Keep', { safetyTier: 'write' }, (given) => given.text ?? null),
         one('Fail', { safetyTier: 'read' }, () => { throw new ToolError('No.', { canRetry: true }) }),
         one('Ask', { safetyTier: 'write', approval: 'always' }, (given) => given),
         one('Count', { safetyTier: 'write' }, () => 1, { session: { open: () => ({}), idleMs: 60_000 } }),
       ],
       server: { port: 0 },
       opentool: { streaming: true },
       auth: {
         apiKeys: [{ id: 'fuzz', key: '${KEY}', scopes: ['*'] }, { id: 'other', key: '${OTHER_KEY}', scopes: ['*'] }],
         issuers: [{ issuer: '${ISSUER.issuer}', audience: 'fuzz' }],
       },
     }`,
  )
  routes = await routesOf()
  server = await startCollet(['serve'], { cwd: folder })
  living = await createSubjects()
}, 60_000)

afterAll(async () => {
  agent.destroy()
  const code = await server.stop()
  rmSync(folder, { recursive: true })
  // The server ran until the end, and stopped on request.
  expect(code).toBe(0)
})

/** The routes of a server with the same protocols and authentication. */
async function routesOf(): Promise<readonly Route[]> {
  const apiKeys = [{ id: 'fuzz', key: new Secret(KEY), tenant: 'default', scopes: ['*'] }]
  const settings = testSettings({ auth: { apiKeys, jwt: undefined, issuers: [ISSUER] } })
  const { opentool } = settings
  const model = await startServer({ ...settings, opentool: { ...opentool, streaming: true } }, { graceMs: 0 })
  await model.close()
  rmSync(settings.dataFolder, { recursive: true })
  return model.routes
}

/** Creates a parked call with a link to its approval, a call, a run and a session, whose names the fuzzer uses. */
async function createSubjects(): Promise<Living> {
  const ask = async (method: string, path: string, body?: unknown, key = KEY) => {
    const headers = { 'x-api-key': key, 'content-type': 'application/json', 'collet-run': 'fuzz-run' }
    const response = await fetch(new URL(path, server.url), {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return await response.text()
  }
  const call = (tool: string, id: string) =>
    ask('POST', '/tools/call', { request: { tool_id: tool, call_id: id, input: { text: 'x' } } })
  await call('Echo.Keep', 'kept')
  await call('Echo.Ask', 'asked')
  const session = await ask('POST', '/v1/sessions', { toolId: 'openwop:Echo.Count' })
  const [approval] = /[\w-]{16,}/.exec(await ask('GET', '/admin/approvals')) ?? []
  const link = await ask('POST', `/admin/approvals/${approval}/link`, { approver: 'somebody' }, OTHER_KEY)
  const ids = [session, link].map((text) => /([\w.~-]{16,})"/.exec(text)?.[1])
  expect([approval, ...ids], `${session} ${link}`).not.toContain(undefined)
  return [
    'kept',
    'asked',
    'fuzz',
    'fuzz-run',
    'Echo.Say',
    'openwop:Echo.Count',
    `${approval}`,
    ...ids.map(String),
  ]
}

/** Status of the answer, read to its end; streams are aborted after a moment. */
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

describe(`arbitrary requests, seed ${SEED}`, () => {
  it.each(Object.entries(LANES))(
    '%s answers every request, and the server keeps working',
    { timeout: HOURS_MS },
    async (name, lane) => {
      const random = new Random(SEED + name.length * 7_919 + name.charCodeAt(0))
      const own = routes.filter(({ path }) => laneOf(path) === name)
      // Enough for a request to each route.
      const cases = Math.max(CASES, SHARE_OF_ROUTES * own.length)
      const distinct = new Set<string>()
      const [statuses, asked] = [new Map<number, number>(), new Map<Route, number>()]
      const next = (): Sent => {
        // One route after another, between valid requests with changes.
        const route = sent % SHARE_OF_ROUTES === 0 ? own[(sent / SHARE_OF_ROUTES) % own.length] : undefined
        if (route === undefined) return lane.craft(random, living)
        asked.set(route, (asked.get(route) ?? 0) + 1)
        return toRoute(random, route, living)
      }
      const work = async (): Promise<void> => {
        while (sent < cases) {
          sent += 1
          const message = next()
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
      const seen = [...statuses].sort().map(([status, times]) => `${status} ${times}`)
      if (CASES >= 10_000)
        process.stdout.write(`${name}, ${sent} requests, ${own.length} routes: ${seen.join(', ')}\n`)
      // Requests that repeat, or that are refused before the handler, test nothing.
      expect(statuses.size).toBeGreaterThan(2)
      expect(statuses.get(200) ?? 0).toBeGreaterThan(cases / 20)
      expect(distinct.size).toBeGreaterThan(cases * 0.5)
      expect(own.filter((route) => !asked.has(route))).toEqual([])
      await expectHealthy()
    },
  )

  it('every route of the server belongs to a lane', () => {
    const lanes = new Set(routes.map(({ path }) => laneOf(path)))
    expect([...lanes].sort()).toEqual(Object.keys(LANES).sort())
    expect(routes.length).toBeGreaterThan(40)
  })

  it('raw connections are answered or closed, and the server keeps working', {
    timeout: HOURS_MS,
  }, async () => {
    const random = new Random(SEED)
    let opened = 0
    const work = async (): Promise<void> => {
      while (opened < CASES / 5) {
        opened += 1
        await talkRaw(rawText(random))
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    await expectHealthy()
  })
})

function rawText(random: Random): string {
  if (random.isLucky(0.1)) return anyText(random)
  const { host } = new URL(server.url)
  const body = bodyText(random, anyValue(random))
  const target = random.isLucky(0.8) ? routes[random.below(routes.length)]?.path : anyText(random)
  const lines = [
    `${random.one(['POST', 'GET', anyText(random)])} ${target} HTTP/1.${random.isLucky(0.9) ? 1 : 0}`,
    `Host: ${random.isLucky(0.8) ? host : anyText(random)}`,
    `X-Api-Key: ${random.isLucky(0.8) ? KEY : anyText(random)}`,
    'Content-Type: application/json',
    random.isLucky(0.5)
      ? `Content-Length: ${random.one([body.length, 0, -1, 1e9, 3])}`
      : 'Transfer-Encoding: chunked',
    ...Array.from({ length: random.below(4) }, () => `${anyText(random)}: ${anyText(random)}`),
  ]
  return `${lines.join(random.isLucky(0.95) ? '\r\n' : '\n')}\r\n\r\n${body}`
}

/** Waits until the server closes the connection, or its time to answer is over. */
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

async function expectHealthy(): Promise<void> {
  const health = { method: 'GET', path: '/health', headers: {} }
  expect(await send(health)).toBe(200)
  expect(server.output()).not.toMatch(
    /unexpected fault|Nobody caught|unhandled|stray|RangeError|heap out of memory/i,
  )
}
